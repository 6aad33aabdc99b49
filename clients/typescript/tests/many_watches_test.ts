/** More watches than a connection has streams: further channels, which close again. */

import {expect, test} from 'vitest';
import type {SessiondSessionService, Watch} from '../src/index.js';
import {newKey, onEachStore, textEvent} from './support/fixtures.js';
import {Proxy} from './support/proxy.js';
import {connect} from './support/server.js';

const WATCHES = 1000;
const SESSIONS = 500;

/** The next item of each watch. */
function nextOf(watches: Watch[]) {
  return Promise.all(watches.map(async watch => (await watch.next()).value));
}

/** Watches of an application that have begun. */
async function begin(
  service: SessiondSessionService,
  appName: string,
  count: number,
): Promise<Watch[]> {
  const start = 'now';
  const watches = Array.from({length: count}, () =>
    service.watch({appName, start}),
  );
  await nextOf(watches);
  return watches;
}

onEachStore('many watches', target => {
  test('a thousand, and unary calls', async () => {
    await using proxy = await Proxy.start(target().server.address);
    await using service = connect(proxy.address);
    const {appName} = newKey();
    const sessions = [];
    for (let number = 0; number < SESSIONS; number++) {
      const userId = `u${number}`;
      sessions.push(
        await service.createSession({appName, userId, sessionId: 's'}),
      );
    }
    const ofSessions = sessions.map(({userId, id}) =>
      service.watch({appName, userId, sessionId: id, start: 'now'}),
    );
    await nextOf(ofSessions);
    const ofApp = await begin(service, appName, WATCHES - SESSIONS);
    expect(proxy.openConnections).toBe(5);

    // More calls at once than a connection has streams.
    const events = await Promise.all(
      sessions.map(session =>
        service.appendEvent({session, event: textEvent(session.userId)}),
      ),
    );
    expect(await nextOf(ofSessions)).toMatchObject(
      events.map(({id}) => ({kind: 'event', event: {id}})),
    );
    await service.updateAppState({appName}, {a: 1});
    for (const item of await nextOf([...ofSessions, ...ofApp])) {
      expect(item).toMatchObject({kind: 'change', values: {'app:a': 1}});
    }
    expect(proxy.connections).toBe(5);
    await service.close();
    await expect.poll(() => proxy.openConnections).toBe(0);
  });

  test('channels without watches close', async () => {
    await using proxy = await Proxy.start(target().server.address);
    await using service = connect(proxy.address);
    const {appName} = newKey();
    const watches = await begin(service, appName, 401);
    expect(proxy.openConnections).toBe(3);
    // A new watch takes a place that is free, and not one beside the last watch of another channel.
    watches.slice(0, 100).forEach(watch => watch.stop());
    const [further] = await begin(service, appName, 1);
    watches[400]!.stop();
    await expect.poll(() => proxy.openConnections).toBe(2);
    for (const watch of [further!, ...watches]) {
      await watch.return();
    }
    await expect.poll(() => proxy.openConnections).toBe(1);
    expect(await service.getAppState({appName})).toEqual({});
    expect(proxy.connections).toBe(3);
  });
});
