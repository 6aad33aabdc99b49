/** Appends from session objects that others have overtaken. */

import type {Session} from '@google/adk';
import {readFileSync} from 'node:fs';
import {expect, test} from 'vitest';
import {
  increment,
  remove,
  SessiondConflictError,
  SessiondStaleError,
  type Stale,
} from '../src/index.js';
import {
  deltaEvent,
  ids,
  newKey,
  onEachStore,
  plain,
  read,
  textEvent,
} from './support/fixtures.js';
import {connect} from './support/server.js';

/** A change of clients/cases/conflict.json. */
interface Change {
  readonly set?: Record<string, unknown>;
  readonly remove?: string[];
  readonly increment?: string[];
}

interface Table {
  readonly state: Record<string, unknown>;
  readonly cases: {name: string; others: Change; own: Change; keys: string[]}[];
}

const file = new URL('../../cases/conflict.json', import.meta.url);
const table = JSON.parse(readFileSync(file, 'utf8')) as Table;

function deltaOf({set, remove: gone = []}: Change): Record<string, unknown> {
  return {...set, ...Object.fromEntries(gone.map(key => [key, undefined]))};
}

onEachStore('staleness', target => {
  async function setUp(stale: Stale, state: Record<string, unknown> = {}) {
    const key = newKey();
    const service = connect(target().server.address, {stale});
    const other = await target().service.createSession({...key, state});
    return {key, service, mine: await read(service, key), other};
  }

  async function overtake(
    {other}: {other: Awaited<ReturnType<typeof setUp>>['other']},
    delta: Record<string, unknown>,
    id = 'other',
  ) {
    await target().service.appendEvent({
      session: other,
      event: deltaEvent(delta, {id}),
    });
  }

  test('merge: deltas are merged key by key, and the object is brought up to date', async () => {
    const {key, service, mine, other} = await setUp('merge', {
      a: 0,
      gone: 0,
      both: 0,
    });
    await overtake(
      {other},
      {b: 1, 'app:c': 2, 'user:d': 3, gone: undefined, both: 'other'},
    );
    await service.appendEvent({
      session: mine,
      event: deltaEvent({a: 1, both: 'mine'}, {id: 'mine'}),
    });
    expect(mine.state).toEqual({
      a: 1,
      b: 1,
      'app:c': 2,
      'user:d': 3,
      both: 'mine',
    });
    expect(ids(mine)).toEqual(['mine']);
    expect(ids(await read(service, key))).toEqual(['other', 'mine']);
    await service.refresh(mine);
    expect(mine).toEqual(await read(service, key));
    await service.close();
  });

  test('error: the append is refused, and nothing changes', async () => {
    const {key, service, mine, other} = await setUp('error', {a: 0});
    await overtake({other}, {b: 1});
    const event = deltaEvent({a: 1, 'temp:t': 1}, {id: 'mine'});
    const append = service.appendEvent({session: mine, event});
    await expect(append).rejects.toThrow(SessiondStaleError);
    await expect(append).rejects.toThrow('modified in storage');
    await expect(append).rejects.toMatchObject({
      reason: 'SEQUENCE_CONFLICT',
      metadata: {expected: '0', actual: '1'},
    });
    expect([mine.state, mine.events, event.actions.stateDelta]).toEqual([
      {a: 0},
      [],
      {a: 1, 'temp:t': 1},
    ]);
    await service.refresh(mine);
    await service.appendEvent({session: mine, event});
    await service.appendEvent({
      session: mine,
      event: textEvent('next', {id: 'next'}),
    });
    expect(ids(await read(service, key))).toEqual(['other', 'mine', 'next']);
    await service.close();
  });

  test('error: parallel branches of one object do not overtake each other', async () => {
    const {key, service, mine} = await setUp('error');
    const events = Array.from({length: 10}, (_, at) =>
      deltaEvent({[`k${at}`]: at}, {id: `e${at}`}),
    );
    await Promise.all(
      events.map(event => service.appendEvent({session: mine, event})),
    );
    expect(await read(service, key)).toEqual(mine);
    await service.close();
  });

  test('error: repeating a stored event advances the object no further than its own events', async () => {
    const {key, service, mine, other} = await setUp('error');
    const event = deltaEvent({a: 1}, {id: 'mine'});
    await service.appendEvent({session: mine, event});
    await target().service.refresh(other);
    await overtake({other}, {b: 1});
    await service.appendEvent({session: mine, event});
    expect([ids(mine), mine.state]).toEqual([['mine'], {a: 1}]);
    const next = service.appendEvent({session: mine, event: textEvent('next')});
    await expect(next).rejects.toThrow(SessiondStaleError);
    expect(ids(await read(service, key))).toEqual(['mine', 'other']);
    await service.close();
  });

  test('error: an event that was stored although its append failed', async () => {
    const {key, service, mine} = await setUp('error');
    const copy = structuredClone({...mine});
    const event = deltaEvent({a: 1}, {id: 'mine'});
    // The same event through another object stands for a lost response.
    await service.appendEvent({
      session: await read(service, key),
      event: structuredClone({...event}),
    });
    await service.appendEvent({session: mine, event});
    await service.appendEvent({session: copy, event});
    expect([mine.state, copy.state]).toEqual([{a: 1}, {a: 1}]);
    await service.appendEvent({
      session: mine,
      event: textEvent('next', {id: 'next'}),
    });
    expect(ids(await read(service, key))).toEqual(['mine', 'next']);
    await service.close();
  });

  test('error: a copy of a session is current if its newest event is', async () => {
    const {service, mine, other} = await setUp('error');
    await service.appendEvent({
      session: mine,
      event: textEvent('one', {id: 'one'}),
    });
    const copy = structuredClone({
      ...mine,
      events: mine.events.map(event => ({...event})),
    });
    await service.appendEvent({
      session: copy,
      event: textEvent('two', {id: 'two'}),
    });
    await target().service.refresh(other);
    await overtake({other}, {b: 1});
    const append = service.appendEvent({
      session: copy,
      event: textEvent('three'),
    });
    await expect(append).rejects.toThrow(SessiondStaleError);
    await service.close();
  });

  test('error: repeating an event that the object was read without', async () => {
    const {key, service, mine} = await setUp('error');
    const event = textEvent('one', {id: 'one'});
    await service.appendEvent({session: mine, event});
    const next = textEvent('two', {id: 'two'});
    await service.appendEvent({session: mine, event: next});
    const newest = await read(service, key, {numRecentEvents: 1});
    await service.appendEvent({session: newest, event});
    expect(ids(newest)).toEqual(['two']);
    await service.close();
  });

  const cases = table.cases.flatMap(one =>
    (['conflict', 'merge', 'error'] as const).map(stale => ({...one, stale})),
  );
  test.each(cases)('$stale: $name', async ({others, own, keys, stale}) => {
    const {service, mine, other} = await setUp(stale, table.state);
    const isOvertaken = Object.keys(others).length > 0;
    if (isOvertaken) {
      await overtake({other}, deltaOf(others));
    }
    const operations = (own.increment ?? []).map(key => increment(key));
    const event = deltaEvent(deltaOf(own));
    const before = plain([mine, event]);
    const append = service.appendEvent({session: mine, event, operations});
    if (stale === 'error' && isOvertaken) {
      await expect(append).rejects.toThrow(SessiondStaleError);
    } else if (stale === 'conflict' && keys.length > 0) {
      await expect(append).rejects.toThrow(SessiondConflictError);
      await expect(append).rejects.toMatchObject({
        reason: 'KEY_CONFLICT',
        keys,
      });
      expect(plain([mine, event])).toEqual(before);
      // An append of another key brings the changes into the object.
      await service.appendEvent({session: mine, event: deltaEvent({free: 1})});
      await service.appendEvent({session: mine, event});
    } else {
      await append;
      const again = deltaEvent({a: 5, new: 5, 'user:u': 5, 'app:x': 5});
      await service.appendEvent({session: mine, event: again});
    }
    await service.close();
  });

  test('conflict: operations and repeated appends never conflict', async () => {
    const {key, service, mine, other} = await setUp('conflict', {n: 1});
    await overtake({other}, {n: 5});
    const event = deltaEvent({a: 1}, {id: 'mine'});
    const request = {
      session: mine,
      event,
      operations: [increment('n'), remove('x')],
    };
    await service.appendEvent(request);
    expect(event.actions.stateDelta).toEqual({a: 1, n: 6});
    await overtake({other}, {a: 'other'}, 'later');
    await service.appendEvent({
      ...request,
      event: Object.assign(deltaEvent({a: 1}), {
        ...event,
        actions: {...event.actions, stateDelta: {a: 1}},
      }),
    });
    expect((await read(service, key)).state).toEqual({n: 6, a: 'other'});
    await service.close();
  });

  test('conflict: a value that is set and not committed still conflicts later', async () => {
    const {service, mine, other} = await setUp('conflict', {a: 0});
    await overtake({other}, {a: 'other'});
    mine.state['a'] = 'mine';
    await service.appendEvent({session: mine, event: textEvent('x')});
    expect(mine.state['a']).toBe('mine');
    const append = service.appendEvent({
      session: mine,
      event: deltaEvent({a: 'mine'}),
    });
    await expect(append).rejects.toThrow(SessiondConflictError);
    await service.close();
  });

  test('conflict: parallel branches of one object that write one key', async () => {
    const {service, mine} = await setUp('conflict');
    const events = [1, 2, 3].map(value => deltaEvent({k: value}));
    await Promise.all(
      events.map(event => service.appendEvent({session: mine, event})),
    );
    expect(mine.state).toEqual({k: 3});
    await service.close();
  });

  const unread: Record<string, (mine: Session) => Session> = {
    'deep copy': mine => structuredClone({...mine, events: []}),
    'copy with its own state': mine => ({...mine, state: {...mine.state}}),
  };
  for (const [name, copied] of Object.entries(unread)) {
    test(`conflict: a ${name} must be current, and is checked by keys from then on`, async () => {
      const {key, service, mine, other} = await setUp('conflict', {a: 0, b: 0});
      const outdated = copied(mine);
      const current = copied(mine);
      await service.appendEvent({
        session: current,
        event: deltaEvent({b: 1}, {id: 'first'}),
      });
      await overtake({other}, {a: 'other'});
      const append = service.appendEvent({
        session: outdated,
        event: deltaEvent({a: 'mine'}),
      });
      await expect(append).rejects.toThrow(SessiondStaleError);
      const again = service.appendEvent({
        session: current,
        event: deltaEvent({a: 'mine'}),
      });
      await expect(again).rejects.toThrow(SessiondConflictError);
      await service.appendEvent({
        session: current,
        event: deltaEvent({b: 2}, {id: 'second'}),
      });
      expect(current.state).toEqual({a: 'other', b: 2});
      expect(ids(await read(service, key))).toEqual([
        'first',
        'other',
        'second',
      ]);
      await service.close();
    });
  }

  test.each<Stale>(['conflict', 'error'])(
    '%s: a listed session must be current',
    async stale => {
      const {key, service, other} = await setUp(stale, {a: 0});
      await overtake({other}, {a: 'other'});
      const list = async () => (await service.listSessions(key)).sessions[0]!;
      const outdated = await list();
      const current = await list();
      await service.appendEvent({
        session: current,
        event: deltaEvent({b: 1}, {id: 'mine'}),
      });
      expect(current.state).toEqual({a: 'other', b: 1});
      const append = service.appendEvent({
        session: outdated,
        event: deltaEvent({b: 2}),
      });
      await expect(append).rejects.toThrow(SessiondStaleError);
      await service.appendEvent({
        session: current,
        event: deltaEvent({a: 1}, {id: 'again'}),
      });
      expect(ids(await read(service, key))).toEqual(['other', 'mine', 'again']);
      await service.close();
    },
  );
});
