/** The examples and the bin, as programs of their own. */

import {InMemorySessionService} from '@google/adk';
import {once} from 'node:events';
import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {newKey, onStore, plain, read, textEvent} from './support/fixtures.js';
import {fullEvent} from './support/full_event.js';
import {run, start} from './support/program.js';
import {connect, Server} from './support/server.js';

describe('programs', () => {
  const target = onStore('sqlite:test.db');

  test('the example, twice', async () => {
    const {address} = target().server;
    const first = await run('build/examples/agent.js', address);
    expect(first).toMatchObject({code: 0, errors: ''});
    expect(first.output).toBe(
      'greeter: You said: Hello!\nvisit 1, 3 events\nticket 1; after its first event, the session had 1 event\n',
    );
    const second = await run('build/examples/agent.js', address);
    expect(second.output).toContain('visit 2, 8 events');
  });

  test('several processes on one session', async () => {
    const {service, server} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const together = (...command: string[]) =>
      run(
        'build/examples/together.js',
        server.address,
        key.appName,
        key.userId,
        key.sessionId,
        ...command,
      );
    const own = (async () => {
      for (let number = 0; number < 200; number++) {
        await service.increment(session, 'user:turns');
      }
    })();
    const results = await Promise.all([
      together('increment', '200'),
      together('turn', 'hello there'),
      own,
    ]);
    expect(results.slice(0, 2)).toMatchObject([
      {code: 0, errors: ''},
      {code: 0, errors: ''},
    ]);
    const {code, output} = await together('dump');
    expect(code).toBe(0);
    const dump = JSON.parse(output) as {
      events: {id: string; author: string; text: string}[];
      state: unknown;
    };
    expect(dump.state).toEqual({
      'user:turns': 400,
      'typescript:turn': 'hello there',
    });
    const texts = dump.events
      .filter(({text}) => text)
      .map(({author, text}) => [author, text]);
    expect(texts).toEqual([
      ['user', 'hello there'],
      ['typescript', 'typescript heard hello there'],
    ]);
    const stored = await read(service, key);
    expect(dump.events.map(({id}) => id)).toEqual(
      stored.events.map(({id}) => id),
    );
    expect((await together('put', 'app:k', '{"a": [1, null]}')).code).toBe(0);
    expect(await service.getAppState(key)).toEqual({k: {a: [1, null]}});
    expect((await together('nonsense')).code).toBe(2);
  });
});

test("a session of ADK's services, written to a file, is imported whole", async () => {
  await using server = await Server.start('memory:');
  await using service = connect(server.address);
  const key = newKey();
  const source = new InMemorySessionService();
  const session = await source.createSession({...key, state: {a: 1}});
  const events = [fullEvent(), textEvent('x', {id: 'e2', timestamp: 1e12})];
  for (const event of events) {
    await source.appendEvent({session, event});
  }
  const original = await read(source, key);
  const file = join(server.directory, '0.session.json');
  writeFileSync(file, JSON.stringify(original));
  await server.run('import', file, '--server', server.address);
  const {sessions} = await service.listSessions({appName: key.appName});
  expect(sessions.map(({id}) => id)).toEqual([key.sessionId]);
  const imported = await read(service, key);
  expect(plain(imported)).toEqual(plain(original));
});

const BIN = 'dist/bin/sessiond_adk_web.js';

/** Stands in for @google/adk-devtools, which installs four SQL drivers. Its AdkApiServer takes the same options. */
const DEVTOOLS = `
exports.AdkApiServer = class {
  constructor(options) { this.options = options; }
  async start() {
    this.listening = setInterval(() => {}, 60_000);
    const {sessionService, ...options} = this.options;
    const session = await sessionService.createSession({appName: 'web', userId: 'u', sessionId: 's', state: {a: 1}});
    console.log(JSON.stringify({options, session}));
  }
  async stop() { clearInterval(this.listening); console.log('stopped'); }
};
`;

describe('the bin', () => {
  const target = onStore('memory:');

  test('gives the service to the server beside the agents', async () => {
    const agents = mkdtempSync(join(tmpdir(), 'sessiond-ts-'));
    const module = join(agents, 'node_modules/@google/adk-devtools');
    mkdirSync(module, {recursive: true});
    writeFileSync(join(module, 'index.js'), DEVTOOLS);
    const child = start(BIN, [
      target().server.address,
      agents,
      '--port',
      '1234',
      '--no-ui',
    ]);
    let output = '';
    child.stdout.on('data', chunk => {
      output += String(chunk);
      if (output.endsWith('\n') && !output.includes('stopped')) {
        child.kill('SIGTERM');
      }
    });
    const [code] = (await once(child, 'close')) as [number];
    rmSync(agents, {recursive: true});
    const [line = '', last] = output.split('\n');
    expect([code, last]).toEqual([0, 'stopped']);
    expect(JSON.parse(line)).toMatchObject({
      options: {
        agentsDir: agents,
        host: 'localhost',
        port: 1234,
        serveDebugUI: false,
      },
      session: {id: 's', state: {a: 1}},
    });
    expect(
      await target().service.getSession({
        appName: 'web',
        userId: 'u',
        sessionId: 's',
      }),
    ).toBeDefined();
  });
});

test('the bin says what is missing', async () => {
  const empty = mkdtempSync(join(tmpdir(), 'sessiond-ts-'));
  const missing = await run(BIN, '127.0.0.1:1', empty);
  rmSync(empty, {recursive: true});
  expect(missing).toMatchObject({code: 1, output: ''});
  expect(missing.errors).toContain('npm install @google/adk-devtools');
  const usage = await run(BIN, 'a', '--port', 'x');
  expect(usage).toMatchObject({code: 2, output: ''});
});
