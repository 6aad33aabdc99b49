/** Addresses, and the settings of URIs. */

import {expect, test} from 'vitest';
import {parseAddress} from '../src/address.js';
import {SessiondSessionService} from '../src/index.js';
import {newKey} from './support/fixtures.js';
import {connect, Server} from './support/server.js';

test.each([
  ['127.0.0.1:50052', '127.0.0.1:50052'],
  ['localhost', 'localhost:50051'],
  [' host:1 ', 'host:1'],
  ['[::1]:50052', '[::1]:50052'],
  ['[::1]', '[::1]:50051'],
  ['sessiond://host:1', 'host:1'],
  ['sessiond://host/', 'host:50051'],
  ['http://host:80', 'host:80'],
  ['http://host', 'host:50051'],
  ['https://host:443', 'host:443'],
  ['unix:/run/s.sock', 'unix:/run/s.sock'],
  ['unix:relative.sock', 'unix:relative.sock'],
  ['sessiond:///run/a%20b.sock', 'unix:/run/a b.sock'],
])('%s is %s', (text, target) => {
  expect(parseAddress(text).target).toBe(target);
  expect(parseAddress(text).tls).toBe(text.startsWith('https:'));
});

test.each([
  ...['', ':1', 'host:0', 'host:65536', 'host:x', 'a b:1', '::1', 'a/b'],
  ...[
    'unix:',
    'unix:///',
    'ftp://host',
    'sessiond://',
    'sessiond:///',
    'http:///x',
  ],
  ...['sessiond://u@host', 'sessiond://host#x', 'sessiond://host/path'],
])("'%s' is refused", text => {
  expect(() => new SessiondSessionService(text)).toThrow(TypeError);
});

test.each([
  ['?nonsense=1', 'nonsense'],
  ['?timeout=x', "'x'"],
  ['?timeout=', "''"],
  ['?timeout=-1', '-1000'],
  ['?timeout=0', 'must be positive'],
  ['?stale=never', "'never'"],
])('the setting %s is refused', (query, message) => {
  const address = `sessiond://host${query}`;
  expect(() => new SessiondSessionService(address)).toThrow(message);
});

test.each([
  [{timeoutMs: 0}, 'positive'],
  [{stale: 'x' as 'merge'}, "'x'"],
  [{retry: {attempts: 0}}, 'at least 1'],
  [{retry: {firstDelayMs: 0}}, 'Set attempts, or positive delays'],
  [{retry: {firstDelayMs: -1}}, 'negative'],
])('the option %o is refused', (options, message) => {
  expect(() => new SessiondSessionService('host', options)).toThrow(message);
});

test('options take precedence over a URI', () => {
  const address = 'sessiond://host?timeout=0&stale=nonsense';
  const options = {timeoutMs: 1, stale: 'merge'} as const;
  expect(() => new SessiondSessionService(address, options)).not.toThrow();
});

test('talks over a unix socket', async () => {
  await using server = await Server.start('memory:', 'unix:DIRECTORY/s.sock');
  for (const address of [
    server.address,
    `sessiond://${server.address.slice('unix:'.length)}`,
  ]) {
    await using service = connect(address);
    const key = newKey();
    await service.createSession(key);
    expect((await service.getSession(key))?.id).toBe('s');
  }
});

test('talks to a URI of the server', async () => {
  await using server = await Server.start();
  for (const scheme of ['http', 'sessiond']) {
    await using service = connect(`${scheme}://${server.address}`);
    expect((await service.createSession(newKey())).id).toBe('s');
  }
});
