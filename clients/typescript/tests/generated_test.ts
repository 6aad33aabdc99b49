/** What is generated and committed is current. */

import {execFileSync} from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {expect, test} from 'vitest';
import {PACKAGE} from './support/program.js';

function files(directory: string): Map<string, string> {
  const names = readdirSync(directory, {
    recursive: true,
    encoding: 'utf8',
  }).filter(name => name.endsWith('.ts'));
  return new Map(
    names
      .sort()
      .map(name => [name, readFileSync(join(directory, name), 'utf8')]),
  );
}

test('src/gen is what generate makes of proto/', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sessiond-ts-'));
  execFileSync(join(PACKAGE, 'generate'), [directory]);
  const generated = files(directory);
  rmSync(directory, {recursive: true});
  expect(generated.size).toBe(7);
  const stale = [...files(join(PACKAGE, 'src/gen'))]
    .filter(([name, text]) => generated.get(name) !== text)
    .map(([name]) => name);
  expect(stale, 'run clients/typescript/generate').toEqual([]);
});

test('generate without its packages leaves the files as they are', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sessiond-ts-'));
  const script = join(directory, 'generate');
  copyFileSync(join(PACKAGE, 'generate'), script);
  const out = join(directory, 'gen');
  cpSync(join(PACKAGE, 'src/gen'), out, {recursive: true});
  expect(() => execFileSync(script, [out], {stdio: 'pipe'})).toThrow('buf');
  const left = files(out);
  rmSync(directory, {recursive: true});
  expect(left).toEqual(files(join(PACKAGE, 'src/gen')));
});

test('the lock file names no registry', () => {
  const lock = readFileSync(join(PACKAGE, 'package-lock.json'), 'utf8');
  expect(lock).not.toContain('"resolved"');
});
