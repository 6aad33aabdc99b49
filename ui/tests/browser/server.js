// Servers of the tests: one for itself on free ports, with a store of its own.

import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdtempSync, rmSync} from 'node:fs';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const BINARY = process.env.SESSIOND_BIN;
const READY_MS = 60_000;

/** Polls until `done` gives something. There is no other way to wait in these tests. */
export async function until(what, done, milliseconds = 20_000) {
  const end = Date.now() + milliseconds;
  for (;;) {
    const found = await done();
    if (found) {
      return found;
    }
    if (Date.now() > end) {
      throw new Error(`not within ${milliseconds} ms: ${what}`);
    }
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const {port} = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

export class Server {
  #flags;
  #process;
  #environment = {...process.env};

  constructor(flags) {
    this.directory = mkdtempSync(join(tmpdir(), 'inspector-'));
    this.#flags = flags;
    for (const name of Object.keys(this.#environment)) {
      if (name.startsWith('SESSIOND_')) {
        delete this.#environment[name];
      }
    }
  }

  static async start(flags = []) {
    const server = new Server(flags);
    server.grpc = `127.0.0.1:${await freePort()}`;
    server.http = `127.0.0.1:${await freePort()}`;
    server.url = `http://${server.http}`;
    await server.run();
    return server;
  }

  /** Starts the process, also again after a kill. */
  async run() {
    const store = `sqlite:${join(this.directory, 'sessions.db')}`;
    const listen = ['--listen', this.grpc, '--http-listen', this.http, '--store', store];
    const options = {env: this.#environment, stdio: ['ignore', 'ignore', 'pipe']};
    this.#process = spawn(BINARY, ['serve', ...listen, ...this.#flags], options);
    let log = '';
    this.#process.stderr.on('data', text => (log = (log + text).slice(-4000)));
    const isUp = async () => {
      if (this.#process.exitCode !== null) {
        throw new Error(`the server has ended: ${log}`);
      }
      const options = {method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'};
      const path = 'sessiond.v1.AdminService/ListApplications';
      return fetch(`${this.url}/${path}`, options).then(
        ({status}) => [200, 401, 403].includes(status),
        () => false,
      );
    };
    await until('the server answers', isUp, READY_MS);
  }

  async kill(signal = 'SIGKILL') {
    const ended = once(this.#process, 'exit');
    this.#process.kill(signal);
    await ended;
  }

  async stop() {
    await this.kill('SIGTERM');
    rmSync(this.directory, {recursive: true, force: true});
  }

  /** Runs a command of the binary against this server. */
  async command(args, input) {
    const server = args[0] === 'token' ? [] : ['--server', this.grpc];
    const child = spawn(BINARY, [...args, ...server], {env: this.#environment});
    let [output, error] = ['', ''];
    child.stdout.on('data', text => (output += text));
    child.stderr.on('data', text => (error += text));
    // A command that reads no input may have ended before.
    child.stdin.on('error', () => {});
    child.stdin.end(input ?? '');
    const [code] = await once(child, 'close');
    if (code !== 0) {
      throw new Error(`sessiond ${args.join(' ')}: ${error}`);
    }
    return output;
  }
}

/** A call over HTTP with JSON. */
export async function call(url, method, request, token) {
  const headers = {'content-type': 'application/json'};
  if (token) {
    headers.authorization = `Bearer ${token}`;
  }
  const body = JSON.stringify(request);
  const {response, answer} = await until('the server has started', async () => {
    const response = await fetch(`${url}/sessiond.v1.${method}`, {method: 'POST', headers, body});
    const answer = await response.json();
    return response.status !== 503 && {response, answer};
  });
  if (!response.ok) {
    throw new Error(`${method}: ${JSON.stringify(answer)}`);
  }
  return answer;
}

/** Appends an event, with its body and delta as JSON values. */
export function append(url, key, {body = {}, set, ...event}, token) {
  const stateDelta = set && {setJson: typeof set === 'string' ? set : JSON.stringify(set)};
  const bodyJson = typeof body === 'string' ? body : JSON.stringify(body);
  const request = {key, event: {author: 'agent', ...event, bodyJson, stateDelta}};
  return call(url, 'EventService/AppendEvent', request, token);
}

export const text = (said, role = 'model') => ({content: {role, parts: [{text: said}]}});
