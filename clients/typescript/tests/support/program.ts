/** Runs the examples and the bin as programs of their own. */

import {spawn, type ChildProcessByStdio} from 'node:child_process';
import {once} from 'node:events';
import {resolve} from 'node:path';
import type {Readable} from 'node:stream';

export const PACKAGE = resolve(import.meta.dirname, '../..');

export interface Result {
  code: number | null;
  output: string;
  errors: string;
}

/** Starts a JavaScript file that `npm run build` has made. */
export function start(
  file: string,
  args: string[],
): ChildProcessByStdio<null, Readable, Readable> {
  return spawn(process.execPath, [resolve(PACKAGE, file), ...args], {
    cwd: PACKAGE,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs such a file to its end. */
export async function run(file: string, ...args: string[]): Promise<Result> {
  const child = start(file, args);
  const texts = {output: '', errors: ''};
  child.stdout.on('data', chunk => (texts.output += String(chunk)));
  child.stderr.on('data', chunk => (texts.errors += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  return {code, ...texts};
}
