/** ADK's interface, compared with ADK's memory service where that is right. */

import {
  createEvent,
  InMemorySessionService,
  type BaseSessionService,
  type ListSessionsRequest,
} from '@google/adk';
import {expect, test} from 'vitest';
import {
  SessiondAlreadyExistsError,
  SessiondNotFoundError,
} from '../src/index.js';
import {
  deltaEvent,
  ids,
  newKey,
  onEachStore,
  read,
  sameAsMemory,
  textEvent,
} from './support/fixtures.js';

onEachStore('contract', target => {
  test('creates and reads a session', async () => {
    const key = newKey();
    const before = Date.now();
    const created = await target().service.createSession({
      ...key,
      state: {a: 1, 'temp:t': 1},
    });
    expect(created).toEqual({
      id: 's',
      appName: key.appName,
      userId: 'user',
      state: {a: 1},
      events: [],
      lastUpdateTime: created.lastUpdateTime,
    });
    expect(created.lastUpdateTime).toBeGreaterThan(before - 60_000);
    expect(await read(target().service, key)).toEqual(created);
  });

  test('makes an id for none and for an empty one', async () => {
    const {appName, userId} = newKey();
    const one = await target().service.createSession({appName, userId});
    const other = await target().service.createSession({
      appName,
      userId,
      sessionId: '',
    });
    expect(one.id).toMatch(/^[0-9a-f-]{36}$/);
    expect(other.id).not.toBe(one.id);
  });

  test('does not trim ids', async () => {
    const key = {...newKey(), sessionId: ' s '};
    await sameAsMemory(target().service, async service => {
      const {id} = await service.createSession(key);
      return [id, await service.getSession({...key, sessionId: 's'})];
    });
  });

  test('shares app: and user: state by prefix', async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession({
      ...key,
      state: {'app:a': 1, 'user:u': 2, s: 3},
    });
    const sameUser = await service.createSession({...key, sessionId: 's2'});
    const otherUser = await service.createSession({...key, userId: 'other'});
    expect(sameUser.state).toEqual({'app:a': 1, 'user:u': 2});
    expect(otherUser.state).toEqual({'app:a': 1});
  });

  test('refuses an id that is taken', async () => {
    const key = newKey();
    await target().service.createSession(key);
    const again = target().service.createSession(key);
    await expect(again).rejects.toThrow(SessiondAlreadyExistsError);
    await expect(again).rejects.toMatchObject({
      reason: 'SESSION_EXISTS',
      attempts: 1,
    });
  });

  test('refuses empty names before anything is sent', async () => {
    const {service} = target();
    await expect(
      service.createSession({appName: '', userId: 'u'}),
    ).rejects.toThrow('appName is empty');
    await expect(
      service.createSession({appName: 'a', userId: ''}),
    ).rejects.toThrow('userId is empty');
  });

  test('a missing session is undefined', async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession(key);
    expect(await service.getSession({...key, sessionId: 'x'})).toBeUndefined();
    expect(await service.getSession({...key, userId: 'x'})).toBeUndefined();
    // The server would look up a bare session id among the sessions of all users.
    expect(
      await service.getSession({...key, appName: '', userId: ''}),
    ).toBeUndefined();
    expect(await service.getSession({...key, sessionId: ''})).toBeUndefined();
  });

  test('gets or creates, also at the same time', async () => {
    const {service} = target();
    const key = newKey();
    const all = await Promise.all(
      Array.from({length: 8}, () =>
        service.getOrCreateSession({...key, state: {a: 1}}),
      ),
    );
    expect(all.map(session => session.state)).toEqual(Array(8).fill({a: 1}));
    await service.appendEvent({
      session: all[0]!,
      event: textEvent('x', {id: 'e1'}),
    });
    expect(
      ids(await service.getOrCreateSession({...key, state: {a: 2}})),
    ).toEqual(['e1']);
    expect(
      (await service.getOrCreateSession({appName: key.appName, userId: 'user'}))
        .id,
    ).not.toBe('s');
  });

  test('appends events and their deltas', async () => {
    const key = newKey();
    await sameAsMemory(target().service, async service => {
      const session = await service.createSession({...key, state: {a: 0}});
      const event = deltaEvent(
        {a: 1, 'app:x': [1], 'user:y': {z: null}, nothing: null, 'temp:t': 9},
        {id: 'e1', timestamp: 1_795_190_851_250.25},
      );
      const returned = await service.appendEvent({session, event});
      expect(returned).toBe(event);
      await service.appendEvent({
        session,
        event: textEvent('hi', {id: 'e2', timestamp: 1_795_190_851_251}),
      });
      const stored = await read(service, key);
      expect(stored).toEqual(session);
      return [stored, session, event];
    });
  });

  test('a partial event changes nothing', async () => {
    const key = newKey();
    await sameAsMemory(target().service, async service => {
      const session = await service.createSession(key);
      const {lastUpdateTime} = session;
      const event = deltaEvent({a: 1}, {partial: true, id: 'p', timestamp: 1});
      const returned = await service.appendEvent({session, event});
      const stored = await read(service, key);
      if (service instanceof InMemorySessionService) {
        // It takes the time of a partial event.
        session.lastUpdateTime = stored.lastUpdateTime = lastUpdateTime;
      }
      expect(session.lastUpdateTime).toBe(lastUpdateTime);
      return [
        returned,
        {...session, lastUpdateTime: 0},
        {...stored, lastUpdateTime: 0},
      ];
    });
  });

  test('an append to a missing session is an error', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    await service.deleteSession(key);
    const event = textEvent('x');
    await expect(service.appendEvent({session, event})).rejects.toThrow(
      SessiondNotFoundError,
    );
    expect(session.events).toEqual([]);
  });

  test('the same event again is stored once', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const event = deltaEvent({n: 1, 'temp:x': 1}, {id: 'e1'});
    await service.appendEvent({session, event});
    await service.appendEvent({session, event});
    expect(ids(session)).toEqual(['e1']);
    expect(ids(await read(service, key))).toEqual(['e1']);
  });

  test('another event with the same id is an error', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    await service.appendEvent({session, event: textEvent('one', {id: 'e1'})});
    const other = service.appendEvent({
      session,
      event: textEvent('two', {id: 'e1'}),
    });
    await expect(other).rejects.toMatchObject({reason: 'EVENT_ID_REUSED'});
    expect(session.events[0]?.content?.parts?.[0]?.text).toBe('one');
  });

  test('an event without an id gets one', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const event = textEvent('x');
    event.id = '';
    await service.appendEvent({session, event});
    expect(event.id).not.toBe('');
    expect(ids(await read(service, key))).toEqual([event.id]);
  });

  test('filters events as ADK does', async () => {
    const key = newKey();
    const filters = [
      {},
      {numRecentEvents: 0},
      {numRecentEvents: 1},
      {numRecentEvents: 2.5},
      {numRecentEvents: 99},
      {numRecentEvents: Infinity},
      {afterTimestamp: 0},
      {afterTimestamp: 2000},
      {afterTimestamp: 2000.5},
      {afterTimestamp: 9e15},
      {afterTimestamp: -9e15},
      {afterTimestamp: Infinity},
      {numRecentEvents: 1, afterTimestamp: 1000},
      {numRecentEvents: 3, afterTimestamp: 3000},
    ];
    const found = await sameAsMemory(target().service, async service => {
      const session = await service.createSession(key);
      for (const seconds of [1, 2, 3, 4]) {
        await service.appendEvent({
          session,
          event: createEvent({
            id: `e${seconds}`,
            author: 'a',
            timestamp: seconds * 1000,
          }),
        });
      }
      const results = [];
      for (const config of filters) {
        results.push(ids(await read(service, key, config)));
      }
      return results;
    });
    expect(found).toHaveLength(filters.length);
    await expect(
      read(target().service, key, {numRecentEvents: -1}),
    ).rejects.toThrow(RangeError);
  });

  test('reads sessions that do not fit into one response', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const text = 'x'.repeat(900_000);
    for (let number = 0; number < 12; number++) {
      await service.appendEvent({
        session,
        event: textEvent(text, {id: `e${number}`}),
      });
    }
    const stored = await read(service, key);
    expect(ids(stored)).toEqual(ids(session));
    expect(
      stored.events.every(event => event.content?.parts?.[0]?.text === text),
    ).toBe(true);
    expect(ids(await read(service, key, {numRecentEvents: 7}))).toEqual(
      ids(session).slice(5),
    );
  });

  test('keeps the order of commits', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const events = [5, 5, 1, 5].map((ms, at) =>
      textEvent('x', {id: `e${at}`, timestamp: ms}),
    );
    await Promise.all(
      events.map(event => service.appendEvent({session, event})),
    );
    expect(ids(await read(service, key))).toEqual(['e0', 'e1', 'e2', 'e3']);
    expect(ids(session)).toEqual(['e0', 'e1', 'e2', 'e3']);
  });

  test('lists with every form of paging', async () => {
    const {appName} = newKey();
    const requests: Omit<ListSessionsRequest, 'appName'>[] = [
      {order: 'asc'},
      {order: 'desc'},
      {order: 'asc', userId: 'u1'},
      {order: 'asc', userId: ''},
      {order: 'asc', userId: 'nobody'},
      {order: 'asc', limit: 2},
      {order: 'asc', limit: 2, offset: 3},
      {order: 'asc', limit: 2, page: 2},
      {order: 'asc', limit: 2, page: 2, offset: 4},
      {order: 'desc', limit: 2, page: 99},
      {order: 'asc', limit: 0},
      {order: 'asc', limit: 0, page: 3},
      {order: 'asc', offset: 2},
      {order: 'asc', userId: 'nobody', limit: 2, offset: 3},
      {order: 'asc', userId: 'nobody', limit: 0},
    ];
    await sameAsMemory(target().service, async service => {
      const times = [50, 20, 40, 20, 10];
      for (const [at, timestamp] of times.entries()) {
        const session = await service.createSession({
          appName,
          userId: `u${at % 2}`,
          sessionId: `s${at}`,
          state: {a: 1},
        });
        await service.appendEvent({
          session,
          event: createEvent({author: 'a', timestamp}),
        });
      }
      const results = [];
      for (const request of requests) {
        results.push(await service.listSessions({appName, ...request}));
      }
      return results;
    });
    const all = await target().service.listSessions({appName});
    expect(all.sessions.map(({id}) => id)).toEqual('s4 s1 s3 s2 s0'.split(' '));
    expect(await target().service.listSessions({appName: ''})).toEqual({
      sessions: [],
      page: 1,
      limit: 0,
      totalItems: 0,
      totalPages: 0,
    });
  });

  test('lists more sessions than a page holds', async () => {
    const {service} = target();
    const {appName, userId} = newKey();
    const numbers = Array.from({length: 1003}, (_, number) => number);
    for (let from = 0; from < numbers.length; from += 50) {
      await Promise.all(
        numbers
          .slice(from, from + 50)
          .map(number =>
            service.createSession({appName, userId, sessionId: `s${number}`}),
          ),
      );
    }
    const found = await service.listSessions({appName, limit: 10, page: 101});
    expect(found).toMatchObject({totalItems: 1003, totalPages: 101});
    expect(found.sessions).toHaveLength(3);
  });

  test('deletes, also what is missing', async () => {
    const key = newKey();
    await sameAsMemory(
      target().service,
      async (service: BaseSessionService) => {
        await service.createSession(key);
        await service.deleteSession({...key, userId: 'x'});
        const still = (await service.getSession(key))?.id;
        await service.deleteSession(key);
        await service.deleteSession(key);
        await service.deleteSession({...key, appName: '', userId: ''});
        return [still, await service.getSession(key)];
      },
    );
  });
});
