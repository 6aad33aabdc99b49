/** Watches, across broken connections and restarts of the server. */

import {status as Code, Metadata} from '@grpc/grpc-js';
import {expect, test} from 'vitest';
import {WatchService} from '../src/gen/sessiond/v1/watch_service_pb.js';
import {
  SessiondInvalidError,
  SessiondNotFoundError,
  SessiondUnauthenticatedError,
  SessiondUnavailableError,
  type Watch,
  type WatchItem,
} from '../src/index.js';
import {
  deltaEvent,
  newKey,
  onEachStore,
  textEvent,
} from './support/fixtures.js';
import {Proxy} from './support/proxy.js';
import {ScriptedServer} from './support/scripted_server.js';
import {connect, Server} from './support/server.js';

/** The next `count` items. */
async function take(watch: Watch, count: number): Promise<WatchItem[]> {
  const items = [];
  while (items.length < count) {
    const {done, value} = await watch.next();
    if (done) {
      break;
    }
    items.push(value);
  }
  return items;
}

function kinds(items: WatchItem[]): string[] {
  return items.map(item => (item.kind === 'event' ? item.event.id : item.kind));
}

onEachStore('watch', target => {
  test('a session: snapshot, events, changes of wider scopes, deletion', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession({...key, state: {a: 1}});
    const watch = service.watch(key);
    const [snapshot, caughtUp] = await take(watch, 2);
    expect(snapshot).toMatchObject({
      kind: 'snapshot',
      state: {a: 1},
      lastSequence: 0,
    });
    expect(caughtUp).toMatchObject({kind: 'caughtUp'});
    await service.appendEvent({
      session,
      event: deltaEvent({b: 1}, {id: 'e1', invocationId: 'i'}),
    });
    const [event] = await take(watch, 1);
    expect(event).toMatchObject({
      kind: 'event',
      sequence: 1,
      event: {id: 'e1', invocationId: 'i', actions: {stateDelta: {b: 1}}},
      rewound: false,
      rewindToSequence: undefined,
    });
    expect(watch.cursor).toBe(event!.cursor);
    await service.updateAppState(key, {x: 1, y: null});
    expect(await take(watch, 1)).toMatchObject([
      {kind: 'change', values: {'app:x': 1, 'app:y': null}, removed: []},
    ]);
    await service.updateAppState(key, {x: undefined});
    expect(await take(watch, 1)).toMatchObject([
      {kind: 'change', values: {}, removed: ['app:x']},
    ]);
    await service.rewindSession({...key, toSequence: 0});
    expect(await take(watch, 1)).toMatchObject([
      {kind: 'event', sequence: 2, rewound: true, rewindToSequence: 0},
    ]);
    await service.deleteSession(key);
    expect(kinds(await take(watch, 9))).toEqual(['deleted']);
    expect(await watch.next()).toEqual({done: true, value: undefined});
  });

  test('starts at the beginning, now, or at a cursor', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    for (const id of ['e1', 'e2']) {
      await service.appendEvent({session, event: textEvent('x', {id})});
    }
    await using beginning = service.watch({...key, start: 'beginning'});
    const items = await take(beginning, 3);
    expect(kinds(items)).toEqual(['e1', 'e2', 'caughtUp']);
    await using resumed = service.watch({...key, cursor: items[0]!.cursor});
    expect(kinds(await take(resumed, 2))).toEqual(['e2', 'caughtUp']);
    await using now = service.watch({...key, start: 'now'});
    expect(kinds(await take(now, 1))).toEqual(['caughtUp']);
    await service.appendEvent({session, event: textEvent('x', {id: 'e3'})});
    expect(kinds(await take(now, 1))).toEqual(['e3']);
    expect(() => service.watch({...key, start: 'yesterday' as 'now'})).toThrow(
      'yesterday',
    );
  });

  test('a user and an application', async () => {
    const {service} = target();
    const key = newKey();
    const {appName, userId} = key;
    await using user = service.watch({appName, userId});
    await using app = service.watch({appName});
    await take(user, 2);
    await take(app, 2);
    const session = await service.createSession(key);
    await service.appendEvent({session, event: deltaEvent({'user:u': 1})});
    expect(await take(user, 1)).toMatchObject([{values: {'user:u': 1}}]);
    await service.updateAppState({appName}, {a: 1});
    expect(await take(app, 1)).toMatchObject([{values: {'app:a': 1}}]);
  });

  test('leaving the loop ends the stream', async () => {
    const {server} = target();
    await using service = connect(server.address);
    const key = newKey();
    await service.createSession(key);
    const seen = [];
    for await (const item of service.watch(key)) {
      seen.push(item.kind);
      if (item.kind === 'caughtUp') {
        break;
      }
    }
    expect(seen).toEqual(['snapshot', 'caughtUp']);
    expect(service['client'].connections.current().watches).toEqual([]);
  });

  test('return and close end a pending next', async () => {
    const service = connect(target().server.address);
    const key = newKey();
    await service.createSession(key);
    const [one, other] = [service.watch(key), service.watch(key)];
    await take(one, 2);
    await take(other, 2);
    const pending = [one.next(), other.next()];
    await one.return();
    await service.close();
    expect(await Promise.all(pending)).toEqual(
      Array(2).fill({done: true, value: undefined}),
    );
    const unused = service.watch(key);
    await unused.return();
    expect(await unused.next()).toEqual({done: true, value: undefined});
    await service.close();
  });

  test('errors end a watch', async () => {
    const {service} = target();
    const key = newKey();
    await expect(service.watch(key).next()).rejects.toThrow(
      SessiondNotFoundError,
    );
    await service.createSession(key);
    const watch = service.watch({...key, cursor: 'nonsense'});
    await expect(watch.next()).rejects.toThrow(SessiondInvalidError);
    expect(await watch.next()).toEqual({done: true, value: undefined});
  });

  test('resumes after a broken connection, without gap or repetition', async () => {
    await using proxy = await Proxy.start(target().server.address);
    await using service = connect(proxy.address);
    const key = newKey();
    const session = await target().service.createSession(key);
    await using watch = service.watch(key);
    await take(watch, 2);
    const seen: string[] = [];
    for (let number = 0; number < 5; number++) {
      proxy.cut();
      await target().service.appendEvent({
        session,
        event: textEvent('x', {id: `e${number}`}),
      });
      seen.push(...kinds(await take(watch, 1)));
    }
    expect(seen).toEqual(['e0', 'e1', 'e2', 'e3', 'e4']);
    expect(proxy.connections).toBeGreaterThan(4);
  });
});

test('resumes after restarts of the server', async () => {
  await using server = await Server.start('sqlite:test.db');
  await using service = connect(server.address, {retry: {attempts: 10_000}});
  const key = newKey();
  const session = await service.createSession(key);
  await using watch = service.watch({...key, reconnectMs: 240_000});
  await take(watch, 2);
  for (const [number, end] of (['stop', 'kill'] as const).entries()) {
    await service.appendEvent({
      session,
      event: textEvent('x', {id: `before${number}`}),
    });
    await server[end]();
    await server.startAgain();
    await service.appendEvent({
      session,
      event: textEvent('x', {id: `after${number}`}),
    });
    expect(kinds(await take(watch, 2))).toEqual([
      `before${number}`,
      `after${number}`,
    ]);
  }
});

test('gives up if the server stays away', async () => {
  const server = await Server.start();
  await using service = connect(server.address);
  const key = newKey();
  await service.createSession(key);
  await using watch = service.watch({...key, reconnectMs: 100});
  await take(watch, 2);
  await server[Symbol.asyncDispose]();
  await expect(watch.next()).rejects.toThrow(SessiondUnavailableError);
});

test('goes on at the cursor of a server that stops', async () => {
  // It may not have sent anything yet.
  const metadata = {retryable: 'yes', cursor: '3'};
  await using server = await ScriptedServer.start(
    WatchService.method.watch,
    {kind: {case: 'sessionDeleted', value: {}}},
    [{code: Code.UNAVAILABLE, reason: 'DRAINING', metadata}, 'ok'],
  );
  await using service = connect(server.address);
  await using watch = service.watch({appName: 'app', start: 'now'});
  expect(kinds(await take(watch, 2))).toEqual(['deleted']);
  expect(server.requests).toMatchObject([{cursor: ''}, {cursor: '3'}]);
});

const DELETED = {
  kind: {case: 'sessionDeleted' as const, value: {}},
  cursor: 'c3',
};

function caughtUp(cursor: string) {
  return {kind: {case: 'caughtUp' as const, value: {}}, cursor};
}

function credential(reason: string) {
  return {code: Code.UNAUTHENTICATED, reason, metadata: {retryable: 'no'}};
}

test('goes on with a new credential', async () => {
  await using server = await ScriptedServer.start(
    WatchService.method.watch,
    DELETED,
    [
      {...credential('CREDENTIAL_EXPIRED'), after: caughtUp('c1')},
      {...credential('CREDENTIAL_INVALID'), after: caughtUp('c2')},
      'ok',
    ],
  );
  const tokens = ['first', 'second', 'third'];
  const metadata = () => {
    const own = new Metadata();
    own.set('authorization', tokens.shift()!);
    return own;
  };
  await using service = connect(server.address, {metadata});
  await using watch = service.watch({appName: 'app'});
  expect(kinds(await take(watch, 9))).toEqual(['caughtUp', 'deleted']);
  expect(server.requests).toMatchObject([
    {cursor: ''},
    {cursor: 'c1'},
    {cursor: 'c2'},
  ]);
  expect(server.metadata.map(sent => sent.get('authorization'))).toEqual([
    ['first'],
    ['second'],
    ['third'],
  ]);
});

test.each(['CREDENTIAL_EXPIRED', 'CREDENTIAL_INVALID'])(
  'ends with a credential that is refused at once: %s',
  async reason => {
    await using server = await ScriptedServer.start(
      WatchService.method.watch,
      DELETED,
      [
        credential(reason),
        {...credential(reason), after: caughtUp('c1')},
        credential(reason),
        'ok',
      ],
    );
    await using service = connect(server.address);
    await using wrong = service.watch({appName: 'app'});
    await expect(wrong.next()).rejects.toThrow(SessiondUnauthenticatedError);
    await using watch = service.watch({appName: 'app'});
    expect(kinds(await take(watch, 1))).toEqual(['caughtUp']);
    await expect(watch.next()).rejects.toMatchObject({
      name: 'SessiondUnauthenticatedError',
      reason,
    });
    expect(watch.cursor).toBe('c1');
    expect(server.requests).toMatchObject([
      {cursor: ''},
      {cursor: ''},
      {cursor: 'c1'},
    ]);
  },
);
