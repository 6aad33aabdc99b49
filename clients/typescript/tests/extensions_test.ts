/** What the service offers beyond ADK's interface. */

import {State, type Event, type Session} from '@google/adk';
import {expect, test} from 'vitest';
import {
  appendToList,
  increment,
  mergePatch,
  remove,
  SessiondInvalidError,
  SessiondNotFoundError,
  setIfAbsent,
  StateValueError,
  type StoredEvent,
} from '../src/index.js';
import {
  deltaEvent,
  ids,
  newKey,
  onEachStore,
  read,
  textEvent,
} from './support/fixtures.js';
import {connect} from './support/server.js';

onEachStore('extensions', target => {
  async function session(state: Record<string, unknown> = {}) {
    const key = newKey();
    return {
      key,
      service: target().service,
      mine: await target().service.createSession({...key, state}),
    };
  }

  test('operations return the result of their own commit', async () => {
    const {key, service, mine} = await session();
    const other = await read(service, key);
    await service.increment(other, 'app:n', 5);
    expect(await service.increment(mine, 'app:n')).toBe(6);
    expect(await service.increment(mine, 'app:n', -2.5)).toBe(3.5);
    expect(
      await service.appendToList(mine, 'user:seen', ['a', 'b', 'c'], 2),
    ).toEqual(['b', 'c']);
    expect(await service.setIfAbsent(mine, 'l', 'en')).toBe('en');
    expect(await service.setIfAbsent(mine, 'l', 'no')).toBe('en');
    expect(await service.merge(mine, 'p', {city: 'Oslo', street: 1})).toEqual({
      city: 'Oslo',
      street: 1,
    });
    expect(await service.merge(mine, 'p', {street: null})).toEqual({
      city: 'Oslo',
    });
    await service.remove(mine, 'l', 'never');
    const expected = {'app:n': 3.5, 'user:seen': ['b', 'c'], p: {city: 'Oslo'}};
    expect(mine.state).toEqual(expected);
    expect((await read(service, key)).state).toEqual(expected);
    expect(mine.events.every(({author}) => author === 'system')).toBe(true);
    // The result belongs to the caller.
    const list = await service.appendToList(mine, 'user:seen', []);
    list.push('mine');
    expect(mine.state['user:seen']).toEqual(['b', 'c']);
  });

  test('concurrent increments are not lost', async () => {
    const {key, service, mine} = await session();
    const other = await read(service, key);
    const sums = await Promise.all(
      Array.from({length: 50}, (_, at) =>
        service.increment(at % 2 ? mine : other, 'user:n', 2),
      ),
    );
    expect(sums.sort((a, b) => a - b)).toEqual(
      Array.from({length: 50}, (_, at) => 2 * (at + 1)),
    );
  });

  test('operations in the commit of an event', async () => {
    const {key, service, mine} = await session({list: [1], gone: 1});
    const event = deltaEvent({a: 1, fresh: 2}, {id: 'e1'});
    const operations = [
      increment('a', 2n),
      appendToList('list', [2]),
      setIfAbsent('list', 0),
      mergePatch('m', {x: null, y: 1}),
      remove('gone'),
      remove('fresh'),
    ];
    await service.appendEvent({session: mine, event, operations});
    expect(mine.state).toEqual({a: 3, list: [1, 2], m: {y: 1}});
    expect(event.actions.stateDelta).toEqual({
      a: 3,
      list: [1, 2],
      m: {y: 1},
      gone: null,
    });
    expect(await read(service, key)).toEqual(mine);
    // Again, with the same operations.
    await service.appendEvent({session: mine, event, operations});
    expect(await read(service, key)).toEqual(mine);
  });

  test('an event that was made by hand, without actions', async () => {
    const {key, service, mine} = await session();
    const event = {id: 'e1', invocationId: '', timestamp: 1} as Event;
    await service.appendEvent({session: mine, event});
    const other = {...event, id: 'e2'};
    await service.appendEvent({
      session: mine,
      event: other,
      operations: [increment('n')],
    });
    expect(other.actions.stateDelta).toEqual({n: 1});
    expect((await read(service, key)).events).toMatchObject([
      event,
      {id: 'e2', actions: {stateDelta: {n: 1}}},
    ]);
  });

  test('operations that cannot be sent or done', async () => {
    const {service, mine} = await session({text: 'x'});
    await expect(service.increment(mine, 'text')).rejects.toMatchObject({
      reason: 'TYPE_MISMATCH',
    });
    await expect(service.increment(mine, 'n', NaN)).rejects.toThrow(
      StateValueError,
    );
    await expect(service.increment(mine, 'n', 2n ** 63n)).rejects.toThrow(
      RangeError,
    );
    await expect(service.increment(mine, 'n', '1' as never)).resolves.toBe(1);
    await expect(service.increment(mine, 'temp:n')).rejects.toThrow("'temp:n'");
    await expect(
      service.change(mine, {
        operations: [{kind: 'nonsense', key: 'k'} as never],
      }),
    ).rejects.toThrow('not an operation');
    expect(mine.state).toEqual({text: 'x', n: 1});
  });

  test('a change has an author and an invocation', async () => {
    const {service, mine, key} = await session();
    const event = await service.change(
      mine,
      {values: {a: 1}, operations: [increment('n')]},
      {author: 'job', invocationId: 'i'},
    );
    expect(event.actions.stateDelta).toEqual({a: 1, n: 1});
    expect((await read(service, key)).events[0]).toMatchObject({
      author: 'job',
      invocationId: 'i',
    });
  });

  test('state of an application and of a user without a session', async () => {
    const {service} = target();
    const {appName, userId} = newKey();
    expect(await service.getAppState({appName})).toEqual({});
    await service.updateAppState({appName}, {theme: 'dark', old: 1});
    await service.updateAppState({appName}, {old: undefined});
    await service.updateUserState({appName, userId}, {plan: 'pro'});
    const state = await service.updateState(
      {appName, userId, author: 'job'},
      {
        values: {'user:x': 1},
        operations: [increment('app:n'), remove('user:x')],
      },
    );
    expect(state).toEqual({
      'app:theme': 'dark',
      'app:n': 1,
      'user:plan': 'pro',
    });
    expect(await service.getAppState({appName})).toEqual({theme: 'dark', n: 1});
    expect(await service.getUserState({appName, userId})).toEqual({
      plan: 'pro',
    });
    expect(await service.getState({appName, userId})).toEqual(state);
    expect((await service.createSession({appName, userId})).state).toEqual(
      state,
    );
    await expect(
      service.updateState({appName}, {values: {'user:x': 1}}),
    ).rejects.toMatchObject({
      name: SessiondInvalidError.name,
      reason: 'KEY_OUTSIDE_SCOPE',
    });
    await expect(service.getState({appName, sessionId: 's'})).rejects.toThrow(
      'needs a userId',
    );
    await expect(
      service.getState({appName, userId, sessionId: 'none'}),
    ).rejects.toThrow(SessiondNotFoundError);
  });

  test('reads, forks and rewinds the past', async () => {
    const {key, service, mine} = await session({n: 0});
    for (const n of [1, 2, 3]) {
      await service.appendEvent({
        session: mine,
        event: deltaEvent({n, 'app:n': n}, {id: `e${n}`}),
      });
    }
    const past = await service.getSessionAsOf({...key, sequence: 2});
    expect([past!.state, ids(past!)]).toEqual([
      {n: 2, 'app:n': 2},
      ['e1', 'e2'],
    ]);
    expect(
      (await service.getSessionAsOf({...key, sequence: 0}))!.state,
    ).toEqual({n: 0});
    expect(
      ids(
        (await service.getSessionAsOf({
          ...key,
          sequence: 2,
          config: {numRecentEvents: 1},
        }))!,
      ),
    ).toEqual(['e2']);
    await expect(
      service.getSessionAsOf({...key, sequence: 9}),
    ).rejects.toMatchObject({reason: 'BEYOND_LAST_SEQUENCE'});
    const fork = await service.forkSession({...key, upToSequence: 1});
    expect([fork.state, fork.events]).toEqual([{n: 1, 'app:n': 3}, []]);
    expect(ids(await read(service, {...key, sessionId: fork.id}))).toEqual([
      'e1',
    ]);
    await service.appendEvent({
      session: fork,
      event: textEvent('on', {id: 'f'}),
    });
    await expect(
      service.forkSession({...key, newSessionId: 's'}),
    ).rejects.toMatchObject({reason: 'SESSION_EXISTS'});
    const rewound = await service.rewindSession({...key, toSequence: 1});
    expect([rewound.state, ids(rewound)]).toEqual([{n: 1, 'app:n': 3}, ['e1']]);
    const all: StoredEvent[] = [];
    for await (const stored of service.listEvents({
      ...key,
      afterSequence: 1,
      includeRewound: true,
    })) {
      all.push(stored);
    }
    expect(
      all.map(({sequence, rewound, rewindToSequence, event}) => [
        sequence,
        rewound,
        rewindToSequence,
        event.author,
      ]),
    ).toEqual([
      [2, true, undefined, 'agent'],
      [3, true, undefined, 'agent'],
      [4, true, 1, 'system'],
    ]);
    expect(all[0]!.commitTime).toBeGreaterThan(1_600_000_000_000);
  });

  test('refresh reads what others have done', async () => {
    const {key, service, mine} = await session({gone: 1});
    const other = await read(service, key);
    new State(mine.state, {}).set('uncommitted', 1);
    await service.appendEvent({
      session: other,
      event: deltaEvent({a: 1, gone: undefined}, {id: 'e1'}),
    });
    await service.refresh(mine);
    expect(mine).toEqual(await read(service, key));
    await service.deleteSession(key);
    await expect(service.refresh(mine)).rejects.toThrow(SessiondNotFoundError);
  });

  test('a session expires', async () => {
    const {key, service} = await session();
    const later = Date.now() + 3_600_000;
    expect(await service.expireSession({...key, at: later})).toBe(later);
    expect(await service.expireSession({...key, afterMs: 1e7})).toBeGreaterThan(
      later,
    );
    expect(await service.expireSession(key)).toBeUndefined();
    await expect(
      service.expireSession({...key, at: 1, afterMs: 1}),
    ).rejects.toThrow('at most one');
    await expect(service.expireSession({...key, at: 1000})).rejects.toThrow(
      SessiondInvalidError,
    );
    await expect(
      service.expireSession({...key, afterMs: Infinity}),
    ).rejects.toThrow(RangeError);
    await service.expireSession({...key, afterMs: 1});
    await expect.poll(() => service.getSession(key)).toBeUndefined();
  });

  test('shares temp: keys with other processes of an invocation', async () => {
    const {key} = await session();
    const service = connect(target().server.address, {shareTemp: true});
    const mine = await read(service, key);
    const event = deltaEvent(
      {a: 1, 'temp:t': {x: 1}},
      {invocationId: 'i', id: 'e1'},
    );
    await service.appendEvent({
      session: mine,
      event,
      operations: [increment('temp:n')],
    });
    expect(Object.keys(event.actions.stateDelta)).toEqual(['a']);
    expect(await service.getState({...key, invocationId: 'i'})).toEqual({
      a: 1,
      'temp:t': {x: 1},
      'temp:n': 1,
    });
    expect((await read(service, key)).state).toEqual({a: 1});
    await service.endInvocation(mine, 'i');
    expect(await service.getState({...key, invocationId: 'i'})).toEqual({a: 1});
    const alone = target().service.appendEvent({
      session: mine,
      event: textEvent('x'),
      operations: [increment('temp:n')],
    });
    await expect(alone).rejects.toThrow('not shared');
    await service.close();
  });

  test('shared temp: keys in the session object follow the server', async () => {
    const {key} = await session();
    const service = connect(target().server.address, {shareTemp: true});
    const mine = await read(service, key);
    const other = await read(service, key);
    const count = (session: Session) =>
      service.appendEvent({
        session,
        event: textEvent('x', {invocationId: 'i'}),
        operations: [increment('temp:n')],
      });
    await count(mine);
    await count(mine);
    expect(mine.state['temp:n']).toBe(2);
    await count(other);
    expect(other.state['temp:n']).toBe(3);
    await service.appendEvent({
      session: mine,
      event: deltaEvent({a: 1, 'temp:t': 1}, {invocationId: 'i'}),
    });
    expect(mine.state).toMatchObject({a: 1, 'temp:n': 3, 'temp:t': 1});
    // An append of another branch comes before that of the value.
    mine.state['temp:t'] = 2;
    await count(mine);
    await service.appendEvent({
      session: mine,
      event: deltaEvent({'temp:t': 2}, {invocationId: 'i'}),
    });
    expect(mine.state).toMatchObject({'temp:n': 4, 'temp:t': 2});
    await service.close();
  });
});
