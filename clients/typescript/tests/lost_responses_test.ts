/** Calls whose response is lost take effect once. */

import {expect, test} from 'vitest';
import {increment} from '../src/index.js';
import {
  deltaEvent,
  ids,
  newKey,
  onEachStore,
  read,
  textEvent,
} from './support/fixtures.js';
import {Proxy} from './support/proxy.js';
import {connect} from './support/server.js';

onEachStore('lost responses', target => {
  async function setUp() {
    const proxy = await Proxy.start(target().server.address);
    const service = connect(proxy.address);
    const key = newKey();
    const dispose = async () => {
      await service.close();
      await proxy[Symbol.asyncDispose]();
    };
    return {key, proxy, service, [Symbol.asyncDispose]: dispose};
  }

  test('of an append', async () => {
    await using all = await setUp();
    const {key, proxy, service} = all;
    const session = await service.createSession(key);
    proxy.loseResponses(3);
    const event = deltaEvent({a: 1}, {id: 'e1'});
    await service.appendEvent({session, event, operations: [increment('n')]});
    expect(proxy.lost).toBe(3);
    expect(session.state).toEqual({a: 1, n: 1});
    expect(event.actions.stateDelta).toEqual({a: 1, n: 1});
    expect(await read(service, key)).toEqual(session);
  });

  test('of an append that others overtake', async () => {
    await using all = await setUp();
    const {key, proxy, service} = all;
    const session = await service.createSession(key);
    const other = await read(target().service, key);
    proxy.loseResponses(1, () =>
      target().service.appendEvent({
        session: other,
        event: deltaEvent({a: 'other', b: 1}, {id: 'other'}),
      }),
    );
    await service.appendEvent({
      session,
      event: deltaEvent({a: 'mine'}, {id: 'mine'}),
    });
    expect(session.state).toEqual({a: 'other', b: 1});
    expect(ids(session)).toEqual(['mine']);
    expect(ids(await read(service, key))).toEqual(['mine', 'other']);
  });

  test.each(['error', 'conflict'] as const)(
    'of an append with stale: %s',
    async stale => {
      await using all = await setUp();
      const {key, proxy} = all;
      const service = connect(proxy.address, {stale});
      const session = await service.createSession({...key, state: {a: 0}});
      proxy.loseResponses(2);
      await service.appendEvent({
        session,
        event: deltaEvent({a: 1}, {id: 'e1'}),
      });
      await service.appendEvent({
        session,
        event: textEvent('next', {id: 'e2'}),
      });
      expect(ids(await read(service, key))).toEqual(['e1', 'e2']);
      await service.close();
    },
  );

  test('of a creation', async () => {
    await using all = await setUp();
    const {key, proxy, service} = all;
    proxy.loseResponses(2);
    const session = await service.createSession({...key, state: {a: 1}});
    expect(session).toMatchObject({id: 's', state: {a: 1}});
    // Somebody else's session is not taken for an own one.
    const other = {...key, sessionId: 'other'};
    await target().service.createSession(other);
    proxy.loseResponses(1);
    await expect(service.createSession(other)).rejects.toMatchObject({
      reason: 'SESSION_EXISTS',
    });
  });

  test('of a creation whose session somebody else replaces', async () => {
    await using all = await setUp();
    const {key, proxy, service} = all;
    proxy.loseResponses(1, async () => {
      await target().service.deleteSession(key);
      await target().service.createSession({...key, state: {whose: 'other'}});
    });
    await expect(service.createSession(key)).rejects.toMatchObject({
      reason: 'SESSION_EXISTS',
      attempts: 2,
    });
  });

  test('of the other writes', async () => {
    await using all = await setUp();
    const {key, proxy, service} = all;
    const session = await service.createSession(key);
    await service.appendEvent({session, event: textEvent('x', {id: 'e1'})});
    proxy.loseResponses(1);
    await service.updateState(key, {operations: [increment('n')]});
    proxy.loseResponses(1);
    expect(await service.increment(session, 'n')).toBe(2);
    proxy.loseResponses(1);
    const fork = await service.forkSession({...key, newSessionId: 'fork'});
    expect(fork.state).toEqual({n: 2});
    proxy.loseResponses(1);
    await service.rewindSession({...key, toSequence: 1});
    proxy.loseResponses(1);
    await service.deleteSession(key);
    expect(proxy.lost).toBe(5);
    expect(await service.getSession(key)).toBeUndefined();
  });

  test('of reads', async () => {
    await using all = await setUp();
    const {key, proxy, service} = all;
    await service.createSession(key);
    proxy.loseResponses(1);
    expect(await service.getSession(key)).toBeDefined();
    proxy.loseResponses(1);
    expect((await service.listSessions(key)).totalItems).toBe(1);
  });
});
