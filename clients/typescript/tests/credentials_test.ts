/** TLS and token files, from options and from the environment. */

import {status as Code, credentials, Metadata} from '@grpc/grpc-js';
import {createHash} from 'node:crypto';
import {mkdtempSync, rmSync, utimesSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterEach, beforeEach, expect, test, vi} from 'vitest';
import {TokenFile} from '../src/credentials.js';
import {
  SessiondPermissionDeniedError,
  SessiondSessionService,
  SessiondUnauthenticatedError,
  SessiondUnavailableError,
  type SessiondOptions,
} from '../src/index.js';
import {Authority} from './support/certificates.js';
import {newKey} from './support/fixtures.js';
import {
  callAndWatch,
  MetadataServer,
  watchToTheEnd,
} from './support/metadata_server.js';
import {connect, Server} from './support/server.js';

let directory: string;
let token: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sessiond-ts-'));
  token = join(directory, 'token');
  writeFileSync(token, 'secret\n');
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, {recursive: true});
});

async function startTls(authority: Authority, ...more: string[]) {
  const {cert, key} = authority.issue('server');
  const tls = ['--tls-cert', cert, '--tls-key', key];
  return Server.start('memory:', '127.0.0.1:0', ...tls, ...more);
}

function uriOf(server: Server): string {
  return `https://${server.address.replace('https://', '')}`;
}

async function expectRefused(uri: string, options: SessiondOptions) {
  await using service = connect(uri, {...options, retry: {attempts: 1}});
  await expect(service.listSessions(newKey())).rejects.toThrow(
    SessiondUnavailableError,
  );
}

test("TLS with the server's authority", async () => {
  const authority = new Authority(directory);
  await using server = await startTls(authority);
  await using service = connect(uriOf(server), {tlsCa: authority.ca});
  expect((await service.createSession(newKey())).id).toBe('s');
  // Node does not trust this authority.
  await expectRefused(uriOf(server), {});
});

test('a certificate of the client, by options and by variables', async () => {
  const authority = new Authority(directory);
  const {ca} = authority;
  await using server = await startTls(authority, '--tls-client-ca', ca);
  const {cert, key} = authority.issue('agent');
  await using service = connect(uriOf(server), {
    ...{tlsCa: ca, tlsCert: cert, tlsKey: key},
  });
  const address = newKey();
  expect((await service.createSession(address)).id).toBe('s');
  await expectRefused(uriOf(server), {tlsCa: ca});

  vi.stubEnv('SESSIOND_TLS_CA', ca);
  vi.stubEnv('SESSIOND_CLIENT_TLS_CERT', cert);
  vi.stubEnv('SESSIOND_CLIENT_TLS_KEY', key);
  await using other = connect(uriOf(server));
  expect((await other.getSession(address))?.id).toBe('s');
});

test('a server with tokens', async () => {
  const hashes = join(directory, 'tokens.toml');
  const digest = createHash('sha256').update('secret').digest('hex');
  writeFileSync(hashes, `[[token]]\nname = "agent"\nsha256 = "${digest}"\n`);
  const flags = ['--token-hashes', hashes];
  await using server = await Server.start('memory:', '127.0.0.1:0', ...flags);
  await using service = connect(server.address, {tokenFile: token});
  const address = newKey();
  await service.createSession(address);
  for await (const item of service.watch(address)) {
    expect(item.kind).toBe('snapshot');
    break;
  }
  await using without = connect(server.address);
  await expect(without.getSession(address)).rejects.toMatchObject({
    name: 'SessiondUnauthenticatedError',
    reason: 'CREDENTIAL_MISSING',
  });
  await expect(watchToTheEnd(without)).rejects.toThrow(
    SessiondUnauthenticatedError,
  );
});

test.each(['127.0.0.1:0', 'unix:'])(
  'the token of a file is sent with calls and watches: %s',
  async place => {
    const listen = place === 'unix:' ? `unix:${directory}/s.sock` : place;
    await using server = await MetadataServer.start(listen);
    await using service = connect(server.address, {tokenFile: token});
    await callAndWatch(service);
    await using without = connect(server.address);
    await callAndWatch(without);
    vi.stubEnv('SESSIOND_TOKEN_FILE', token);
    await using byVariable = connect(server.address);
    await callAndWatch(byVariable);
    const metadata = new Metadata();
    metadata.set('authorization', 'mine');
    await using own = connect(server.address, {metadata});
    await callAndWatch(own);
    expect(server.values('authorization')).toEqual([
      ...['Bearer secret', 'Bearer secret', '', ''],
      ...['Bearer secret', 'Bearer secret', 'mine', 'mine'],
    ]);
  },
);

test('a new token is sent after the file has changed', async () => {
  utimesSync(token, 1, 1);
  await using server = await MetadataServer.start();
  await using service = connect(server.address, {tokenFile: token});
  await callAndWatch(service);
  writeFileSync(token, 'new');
  while (server.values('authorization').at(-1) === 'Bearer secret') {
    await callAndWatch(service);
  }
  expect(new Set(server.values('authorization'))).toEqual(
    new Set(['Bearer secret', 'Bearer new']),
  );
});

test('the file is looked at once a second, and the last token stays', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
  let now = 0;
  const write = (text: string, modified: number) => {
    writeFileSync(token, text);
    utimesSync(token, modified, modified);
  };
  write('a', 1);
  const file = new TokenFile({path: token, source: 'tokenFile'}, () => now);
  const after = (ms: number) => {
    now += ms;
    return file.token();
  };
  write('b', 2);
  expect([after(900), after(100)]).toEqual(['a', 'b']);
  write('unread', 2);
  expect(after(1000)).toBe('b');
  write('', 3);
  expect(after(1000)).toBe('b');
  rmSync(token);
  expect(after(1000)).toBe('b');
  expect(warned).toHaveBeenCalledTimes(2);
  write('c', 3);
  expect(after(1000)).toBe('c');
});

test.each([
  'sessions.example.com:50051',
  'http://10.0.0.1:50051',
  '[2001:db8::1]:1',
  '0.0.0.0:1',
  '127.example.com:1',
])('a token is not sent to %s without TLS', address => {
  const refused =
    /Refusing to send a token to \S+ without TLS\. Use https:\/\/HOST:PORT\./;
  const files = {tokenFile: token};
  expect(() => new SessiondSessionService(address, files)).toThrow(refused);
  vi.stubEnv('SESSIOND_TOKEN_FILE', token);
  expect(() => new SessiondSessionService(address)).toThrow(refused);
  const tls = {credentials: credentials.createSsl()};
  expect(() => new SessiondSessionService(address, tls)).not.toThrow();
});

test.each([
  ...['127.0.0.1:1', '127.8.8.8:1', 'localhost:1', '[::1]:1'],
  ...['[0:0:0:0:0:0:0:1]:1', 'unix:/s', 'https://h:1'],
])('a token may be sent to %s', address => {
  const files = {tokenFile: token};
  expect(() => new SessiondSessionService(address, files)).not.toThrow();
});

test.each<[string, SessiondOptions, string]>([
  ['h:1', {tlsCa: 'ca.pem'}, 'tlsCa needs TLS, and h:1 has none.'],
  ['h:1', {tlsCert: 'a', tlsKey: 'a'}, 'tlsCert needs TLS, and h:1 has none.'],
  ['https://h', {tlsCert: 'a'}, 'tlsCert and tlsKey belong together.'],
  ['https://h', {tlsKey: 'a'}, 'tlsCert and tlsKey belong together.'],
  ['https://h', {tlsCa: '/missing'}, 'tlsCa: Error: ENOENT'],
  ['https://h', {tokenFile: '/missing'}, 'tokenFile: Error: ENOENT'],
  ['h', {tlsCa: 'a', credentials: credentials.createSsl()}, 'credentials excl'],
])('%s with %o is refused', (address, options, message) => {
  expect(() => new SessiondSessionService(address, options)).toThrow(message);
});

test('files without what they should have are refused, and variables are named', () => {
  const empty = join(directory, 'empty');
  writeFileSync(empty, '');
  const create = (options: SessiondOptions) => () =>
    new SessiondSessionService('https://h', options);
  expect(create({tokenFile: empty})).toThrow(
    `tokenFile: '${empty}' has no token.`,
  );
  expect(create({tlsCert: token, tlsKey: token})).toThrow('tlsCert, tlsKey: ');
  vi.stubEnv('SESSIOND_TLS_CA', 'ca.pem');
  expect(() => new SessiondSessionService('h:1')).toThrow(
    'SESSIOND_TLS_CA needs TLS, and h:1 has none.',
  );
  vi.stubEnv('SESSIOND_TLS_CA', '');
  expect(() => new SessiondSessionService('h:1')).not.toThrow();
});

test.each([
  [Code.UNAUTHENTICATED, SessiondUnauthenticatedError],
  [Code.PERMISSION_DENIED, SessiondPermissionDeniedError],
])('status %i is not retried', async (code, expected) => {
  await using server = await MetadataServer.start();
  server.refuse = code;
  await using service = connect(server.address);
  await expect(service.listSessions(newKey())).rejects.toThrow(expected);
  await expect(watchToTheEnd(service)).rejects.toThrow(expected);
  expect(server.seen.length).toBe(2);
});
