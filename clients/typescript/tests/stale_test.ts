/** Appends from session objects that others have overtaken. */

import type {Session} from '@google/adk';
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
  read,
  textEvent,
} from './support/fixtures.js';
import {connect} from './support/server.js';

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

  test('conflict: an error only if a key that the event writes was changed', async () => {
    const {key, service, mine, other} = await setUp('conflict', {
      a: 0,
      'app:a': 0,
      'user:a': 0,
      gone: 0,
    });
    await overtake(
      {other},
      {
        a: 'other',
        'app:a': 'other',
        'user:a': 'other',
        gone: undefined,
        fresh: 'other',
      },
    );
    for (const name of ['a', 'app:a', 'user:a', 'gone', 'fresh']) {
      for (const value of [1, undefined]) {
        const event = deltaEvent({free: 1, [name]: value});
        const append = service.appendEvent({session: mine, event});
        await expect(append).rejects.toThrow(SessiondConflictError);
        await expect(append).rejects.toMatchObject({
          reason: 'KEY_CONFLICT',
          keys: [name],
        });
      }
    }
    expect([mine.state, mine.events]).toEqual([
      {a: 0, 'app:a': 0, 'user:a': 0, gone: 0},
      [],
    ]);
    await service.appendEvent({
      session: mine,
      event: deltaEvent({free: 1}, {id: 'mine'}),
    });
    expect(mine.state).toEqual({
      a: 'other',
      'app:a': 'other',
      'user:a': 'other',
      fresh: 'other',
      free: 1,
    });
    // The object shows the changes now.
    await service.appendEvent({
      session: mine,
      event: deltaEvent({a: 1, fresh: undefined, gone: 1}, {id: 'again'}),
    });
    expect(ids(await read(service, key))).toEqual(['other', 'mine', 'again']);
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
