/** Connections that are dead without having been closed. */

import {afterEach, beforeEach, expect, test, vi} from 'vitest';
import type {SessiondOptions} from '../src/index.js';
import {newKey} from './support/fixtures.js';
import {Proxy} from './support/proxy.js';
import {connect, Server} from './support/server.js';

beforeEach(() => {
  vi.useFakeTimers({toFake: ['setTimeout', 'clearTimeout']});
});

afterEach(() => {
  vi.useRealTimers();
});

const settings: Record<string, [SessiondOptions, number, number]> = {
  'by default': [{}, 20_000, 20_000],
  "by the caller's options": [
    {
      channelOptions: {
        'grpc.keepalive_time_ms': 3_000,
        'grpc.keepalive_timeout_ms': 1_000,
      },
    },
    3_000,
    1_000,
  ],
};

test.each(Object.entries(settings))(
  'a call leaves a dead connection %s',
  async (_, [options, time, timeout]) => {
    await using server = await Server.start();
    await using proxy = await Proxy.start(server.address);
    await using service = connect(proxy.address, options);
    const key = newKey();
    await service.createSession(key);
    proxy.loseEverything();
    const sent = proxy.received;
    const call = service.getSession(key);
    await expect.poll(() => proxy.received).toBeGreaterThan(sent);

    await vi.advanceTimersByTimeAsync(time - 1);
    expect(proxy.pings).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    await expect.poll(() => proxy.pings).toBe(1);
    await vi.advanceTimersByTimeAsync(timeout - 1);
    expect(proxy.connections).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    // The delay before the next attempt is a timer, too.
    await expect
      .poll(async () => {
        await vi.advanceTimersByTimeAsync(100);
        return proxy.connections;
      })
      .toBe(2);
    expect((await call)?.id).toBe(key.sessionId);
  },
);

test('an idle connection is not pinged', async () => {
  await using server = await Server.start();
  await using proxy = await Proxy.start(server.address);
  await using service = connect(proxy.address);
  await service.createSession(newKey());
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect([proxy.pings, proxy.connections]).toEqual([0, 1]);
});
