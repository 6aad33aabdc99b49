/** State values, and the state of the caller's session object. */

import {BaseSessionService, State, type Session} from '@google/adk';
import {deepStrictEqual} from 'node:assert/strict';
import {expect, test} from 'vitest';
import {StateValueError} from '../src/index.js';
import {encodeValue, splitObject} from '../src/json.js';
import {
  deltaEvent,
  newKey,
  onEachStore,
  plain,
  read,
} from './support/fixtures.js';
import {RawClient} from './support/raw.js';

class Point {
  constructor(readonly x: number) {}
}

const cycle: unknown[] = [];
cycle.push(cycle);

test.each([
  [new Date(0), '"1970-01-01T00:00:00.000Z"'],
  [{a: undefined, b: 1}, '{"b":1}'],
  [new Point(1), '{"x":1}'],
  ['\\ud800', '"\\\\ud800"'],
  [-0, '0'],
  ['a\ud800', '"a\ufffd"'],
  [{['\udc00']: ['\ud83d\ud83d', '😀']}, '{"\ufffd":["\ufffd\ufffd","😀"]}'],
])('%o is stored as %s', (value, text) => {
  expect(encodeValue('k', value)).toBe(text);
});

test.each([
  ...[
    undefined,
    () => 1,
    Symbol('x'),
    1n,
    NaN,
    -Infinity,
    new Map(),
    new Set([1]),
    Buffer.from('x'),
  ],
  ...[new Uint8Array(1), new ArrayBuffer(1), cycle, {a: [NaN]}, [() => 1]],
])('value %# has no JSON form', value => {
  expect(() => encodeValue('the:key', value)).toThrow(StateValueError);
  expect(() => encodeValue('the:key', value)).toThrow("'the:key'");
});

test.each([
  ['{}', []],
  ['{"a":1}', [['a', '1']]],
  [
    ' { "a" : [1, {"b": "}"}] , "\\"" : "\\\\" } ',
    [
      ['a', '[1, {"b": "}"}]'],
      ['"', '"\\\\"'],
    ],
  ],
  ['{"a":1,"a":2}', [['a', '2']]],
  [
    '{"a":{},"b":[],"c":"","d":"[{,"}',
    [
      ['a', '{}'],
      ['b', '[]'],
      ['c', '""'],
      ['d', '"[{,"'],
    ],
  ],
])('splits %s', (text, members) => {
  expect([...splitObject(text)]).toEqual(members);
});

test.each([
  [1, '1.0', '1.0'],
  [2, '1.0', '2'],
  [{b: 2, a: 1}, '{"a":1.0,"b":2.0}', '{"b":2.0,"a":1.0}'],
  [{a: [1, 2, 4]}, ' {"a": [1.0, 2.0, 3.0]} ', '{"a":[1.0,2.0,4]}'],
  [
    {n: 12345678901234567000, x: 1},
    '{"n":12345678901234567890}',
    '{"n":12345678901234567890,"x":1}',
  ],
  ['1', '1', '"1"'],
  [[], '{}', '[]'],
])(
  'what has not changed keeps its spelling: %j from %s',
  (value, before, text) => {
    expect(encodeValue('k', value, before)).toBe(text);
  },
);

onEachStore('state', target => {
  async function sessions(
    state: Record<string, unknown> = {},
  ): Promise<[Session, Session]> {
    const key = newKey();
    const mine = await target().service.createSession({...key, state});
    return [mine, await read(target().service, key)];
  }

  test('state and deltas are plain objects', async () => {
    const key = newKey();
    const raw = new RawClient(target().server.address);
    const mine = await target().service.createSession({
      ...key,
      state: {a: 1, 'user:b': 2, 'app:c': 3},
    });
    const set = '{"__proto__":{"polluted":1},"toString":"text"}';
    await raw.append(key, '{}', {
      stateDelta: {setForm: {case: 'setJson', value: set}},
    });
    await target().service.appendEvent({
      session: mine,
      event: deltaEvent(JSON.parse('{"__proto__":{"polluted":2}}')),
    });
    const found = await read(target().service, key);
    const expected = JSON.parse(
      '{"__proto__":{"polluted":2},"toString":"text","a":1,"user:b":2,"app:c":3}',
    );
    for (const {state} of [mine, found]) {
      // eslint-disable-next-line no-prototype-builtins -- what users write
      expect(state.hasOwnProperty('__proto__')).toBe(true);
      expect(Object.getPrototypeOf(state)).toBe(Object.prototype);
      deepStrictEqual(state, expected);
    }
    deepStrictEqual(found.events[0]?.actions.stateDelta, JSON.parse(set));
    deepStrictEqual(
      await target().service.getUserState({
        appName: key.appName,
        userId: 'user',
      }),
      {b: 2},
    );
    const [listed] = (await target().service.listSessions(key)).sessions;
    expect(`${listed?.state}`).toBe('[object Object]');
    expect('polluted' in {}).toBe(false);
    await raw.connections.close(0);
  });

  test('a number that JavaScript cannot hold survives what an agent does beside it', async () => {
    const key = newKey();
    const raw = new RawClient(target().server.address);
    await target().service.createSession(key);
    const set =
      '{"id":12345678901234567890,"list":[9007199254740993,1.0],"deep":{"n":1e400e}}'.replace(
        '1e400e',
        '0.10',
      );
    await raw.append(key, '{}', {
      stateDelta: {setForm: {case: 'setJson', value: set}},
    });
    const session = await read(target().service, key);
    const list = [...(session.state['list'] as number[]), 5];
    const event = deltaEvent({
      id: session.state['id'],
      list,
      deep: {...(session.state['deep'] as object), more: true},
    });
    await target().service.appendEvent({session, event});
    const [, stored] = await raw.stored(key);
    expect(stored?.stateDelta?.setForm.value).toBe(
      '{"id":12345678901234567890,"list":[9007199254740993,1.0,5],"deep":{"n":0.10,"more":true}}',
    );
    await raw.connections.close(0);
  });

  test('refuses a value without a JSON form before anything is sent or changed', async () => {
    const [session] = await sessions();
    const event = deltaEvent({a: 1, 'user:bad': NaN, 'temp:t': 1});
    const append = target().service.appendEvent({session, event});
    await expect(append).rejects.toMatchObject({
      name: 'StateValueError',
      key: 'user:bad',
    });
    expect([session.events, session.state]).toEqual([[], {}]);
    expect(plain(event.actions.stateDelta)).toEqual({
      a: 1,
      'user:bad': null,
      'temp:t': 1,
    });
    const create = target().service.createSession({
      ...newKey(),
      state: {f: () => 1},
    });
    await expect(create).rejects.toThrow(StateValueError);
  });

  test('undefined removes a key', async () => {
    const [session, other] = await sessions({a: 1, 'app:b': 2, c: 3});
    const event = deltaEvent({
      a: undefined,
      'app:b': undefined,
      never: undefined,
    });
    await target().service.appendEvent({session, event});
    expect(Object.entries(session.state)).toEqual([['c', 3]]);
    await target().service.refresh(other);
    expect(Object.entries(other.state)).toEqual([['c', 3]]);
    expect(other.events[0]?.actions.stateDelta).toEqual({
      a: null,
      'app:b': null,
    });
  });

  test('temp: keys stay in the session object and reach nothing else', async () => {
    const [session, other] = await sessions();
    const event = deltaEvent({a: 1});
    const state = new State(session.state, event.actions.stateDelta);
    state.set('temp:t', () => 'any value');
    await target().service.appendEvent({session, event});
    expect(session.state['temp:t']).toBeTypeOf('function');
    expect(Object.keys(event.actions.stateDelta)).toEqual(['a']);
    await target().service.refresh(session);
    expect(session.state['temp:t']).toBeTypeOf('function');
    await target().service.refresh(other);
    expect(Object.keys(other.state)).toEqual(['a']);
  });

  test('the objects of the caller stay the same', async () => {
    const [session] = await sessions({a: 1});
    const {state, events} = session;
    const value = {mine: true};
    await target().service.appendEvent({session, event: deltaEvent({value})});
    await target().service.refresh(session);
    expect(session.state).toBe(state);
    expect(session.events).toBe(events);
    const own = deltaEvent({value});
    await target().service.appendEvent({session, event: own});
    expect(session.state['value']).toBe(value);
    expect(session.events.at(-1)).toBe(own);
  });

  test('values that are set and not committed survive the append of another branch', async () => {
    const [session, other] = await sessions({
      kept: 0,
      taken: 0,
      gone: 0,
      list: [1],
    });
    await target().service.appendEvent({
      session: other,
      event: deltaEvent({
        kept: 'other',
        taken: 'other',
        fresh: 'other',
        gone: undefined,
      }),
    });
    const pending = deltaEvent({});
    const branch = new State(session.state, pending.actions.stateDelta);
    branch.set('kept', 'mine');
    branch.set('gone', 'mine');
    (session.state['list'] as number[]).push(2);
    const event = deltaEvent({});
    const parallel = new State(session.state, event.actions.stateDelta);
    parallel.update({done: true, list: [1, 2]});
    const append = target().service.appendEvent({session, event});
    branch.set('fresh', 'mine');
    branch.set('done', 'again');
    await append;
    expect(session.state).toEqual({
      kept: 'mine',
      taken: 'other',
      gone: 'mine',
      list: [1, 2],
      fresh: 'mine',
      done: 'again',
    });
    await target().service.appendEvent({session, event: pending});
    expect(session.state).toEqual({
      kept: 'mine',
      taken: 'other',
      gone: 'mine',
      list: [1, 2],
      fresh: 'mine',
      done: 'again',
    });
    await target().service.refresh(other);
    expect(other.state).toEqual(session.state);
  });

  test('the late commit of an older delta does not roll back a newer one', async () => {
    const [session, other] = await sessions();
    const [older, newer] = [deltaEvent({}), deltaEvent({})];
    new State(session.state, older.actions.stateDelta).set('k', 'older');
    new State(session.state, newer.actions.stateDelta).set('k', 'newer');
    await target().service.appendEvent({session, event: newer});
    await target().service.appendEvent({session, event: older});
    // As ADK's own services: the object keeps the newer write, the log has the last commit.
    const memory = await inMemory();
    expect(session.state['k']).toBe(memory);
    await target().service.refresh(other);
    expect(other.state['k']).toBe('older');
  });

  test('a session of another service, or a copy, gets every stored value', async () => {
    const [session] = await sessions({a: 1, gone: 1});
    await target().service.appendEvent({session, event: deltaEvent({b: 1})});
    const copy = structuredClone({...session, events: []});
    await target().service.appendEvent({
      session,
      event: deltaEvent({a: 2, gone: undefined}),
    });
    await target().service.appendEvent({
      session: copy,
      event: deltaEvent({c: 1, b: undefined}),
    });
    expect(copy.state).toEqual({a: 2, c: 1, gone: 1});
  });
});

/** What ADK's own update of a session object makes of two deltas that are committed in the other order. */
async function inMemory(): Promise<unknown> {
  const session: Session = {
    id: 's',
    appName: 'a',
    userId: 'u',
    state: {},
    events: [],
    lastUpdateTime: 0,
  };
  const [older, newer] = [deltaEvent({}), deltaEvent({})];
  new State(session.state, older.actions.stateDelta).set('k', 'older');
  new State(session.state, newer.actions.stateDelta).set('k', 'newer');
  const append = BaseSessionService.prototype.appendEvent;
  await append.call(
    {
      updateSessionState: Reflect.get(
        BaseSessionService.prototype,
        'updateSessionState',
      ),
    } as never,
    {session, event: newer},
  );
  await append.call(
    {
      updateSessionState: Reflect.get(
        BaseSessionService.prototype,
        'updateSessionState',
      ),
    } as never,
    {session, event: older},
  );
  return session.state['k'];
}
