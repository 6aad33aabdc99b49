/** Real servers on free ports that end with the test. */

import {execFile, spawn, type ChildProcess} from 'node:child_process';
import {once} from 'node:events';
import {
  accessSync,
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {promisify} from 'node:util';
import {SessiondSessionService, type SessiondOptions} from '../../src/index.js';

export const STORES = ['memory:', 'sqlite:test.db'];

/**
 * The server binary: SESSIOND_TEST_PROGRAM, or the newest build of cargo.
 *
 * @throws Error if there is no binary, so that no test is skipped.
 */
function program(): string {
  const named = process.env['SESSIOND_TEST_PROGRAM'];
  if (named) {
    accessSync(named, constants.X_OK);
    return resolve(named);
  }
  const root = resolve(import.meta.dirname, '../../../..');
  const target = resolve(root, process.env['CARGO_TARGET_DIR'] ?? 'target');
  const built = ['release', 'debug']
    .map(kind => join(target, kind, 'sessiond'))
    .filter(path => statSync(path, {throwIfNoEntry: false})?.isFile())
    .sort((one, other) => statSync(other).mtimeMs - statSync(one).mtimeMs);
  if (!built[0]) {
    throw new Error(
      `No sessiond in ${target}. Run cargo build, or set SESSIOND_TEST_PROGRAM.`,
    );
  }
  return built[0];
}

/** A running `sessiond serve`. */
export class Server {
  address = '';
  readonly directory = mkdtempSync(join(tmpdir(), 'sessiond-ts-'));
  #process: ChildProcess | undefined;

  private constructor(
    readonly store: string,
    readonly more: readonly string[],
  ) {}

  /** Starts a server and waits until it prints its address. `more` are further arguments. */
  static async start(
    store = 'memory:',
    listen = '127.0.0.1:0',
    ...more: string[]
  ): Promise<Server> {
    const server = new Server(store, more);
    await server.#start(listen.replace('DIRECTORY', server.directory));
    return server;
  }

  /** The environment may configure a sessiond of its own, which must not affect the tests. */
  get #env(): NodeJS.ProcessEnv {
    return Object.fromEntries(
      Object.entries(process.env).filter(
        ([name]) => !name.startsWith('SESSIOND_'),
      ),
    );
  }

  /**
   * Runs another command of the program in the server's folder.
   *
   * @throws Error: it fails.
   */
  async run(...command: string[]): Promise<void> {
    const {directory: cwd} = this;
    await promisify(execFile)(program(), command, {cwd, env: this.#env});
  }

  async #start(listen: string): Promise<void> {
    const logFile = join(this.directory, 'server.log');
    const log = openSync(logFile, 'a');
    const child = spawn(
      program(),
      [
        'serve',
        '--http-listen',
        'off',
        '--listen',
        listen,
        '--store',
        this.store,
        ...this.more,
      ],
      {cwd: this.directory, env: this.#env, stdio: ['ignore', 'pipe', log]},
    );
    closeSync(log);
    this.#process = child;
    let output = '';
    for await (const chunk of child.stdout!.iterator({
      destroyOnReturn: false,
    })) {
      output += String(chunk);
      const found = /listen(?:s|ing) on (\S+)/.exec(output);
      if (found?.[1]) {
        this.address = found[1];
        child.stdout!.resume();
        return;
      }
    }
    throw new Error(
      `The server did not start: ${output}${readFileSync(logFile, 'utf8')}`,
    );
  }

  /** Kills it, as a crash does. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Stops it gracefully. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (child && child.exitCode === null && child.signalCode === null) {
      const exit = once(child, 'exit');
      child.kill(signal);
      await exit;
    }
  }

  /** Starts it with the same address and store. */
  async startAgain(): Promise<void> {
    await this.#start(this.address);
  }

  /** Kills it and removes its files. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.directory, {recursive: true, force: true});
  }
}

/** A service with a deadline for machines however busy. */
export function connect(
  address: string,
  options: SessiondOptions = {},
): SessiondSessionService {
  return new SessiondSessionService(address, {timeoutMs: 240_000, ...options});
}
