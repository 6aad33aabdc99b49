/** How long a call waits for a server that is not there. */

import {create} from '@bufbuild/protobuf';
import {status as Code} from '@grpc/grpc-js';
import {expect, test} from 'vitest';
import {Connections} from '../src/channel.js';
import {Client} from '../src/client.js';
import {
  GetSessionRequestSchema,
  SessionService,
} from '../src/gen/sessiond/v1/session_service_pb.js';
import {
  SessiondSessionService,
  SessiondUnavailableError,
} from '../src/index.js';
import {Backoff} from '../src/retry.js';
import {newKey} from './support/fixtures.js';
import {
  ScriptedServer,
  type Answer,
  type Failure,
} from './support/scripted_server.js';

const {getSession} = SessionService.method;
const LOST: Failure = {code: Code.UNAVAILABLE};
const STARTING: Failure = {
  ...LOST,
  reason: 'STARTING',
  metadata: {retryable: 'yes'},
};

/** Nothing listens there. A port that was free a moment ago can be another test's by now. */
const ABSENT = '127.0.0.1:1';

/** Milliseconds until the call of a service fails. */
async function failsAfter(service: SessiondSessionService): Promise<number> {
  const began = performance.now();
  const call = service.getSession(newKey());
  await expect(call).rejects.toThrow(SessiondUnavailableError);
  await service.close();
  return performance.now() - began;
}

test('by default, a local server has less than a call', async () => {
  const tcp = new SessiondSessionService(ABSENT);
  const unix = new SessiondSessionService('unix:/nowhere/sessiond.sock');
  const times = await Promise.all([tcp, unix].map(failsAfter));
  // A call has 15 seconds, and ends up to a second before them.
  expect(Math.max(...times)).toBeLessThan(12_000);
});

test('a timeout that is set holds for a local server as well', async () => {
  const option = new SessiondSessionService(ABSENT, {timeoutMs: 6_000});
  const uri = new SessiondSessionService(`sessiond://${ABSENT}?timeout=6`);
  const times = await Promise.all([option, uri].map(failsAfter));
  expect(Math.min(...times)).toBeGreaterThan(4_900);
});

/** Calls a server with these answers, which is given up at once while it counts as absent. */
async function call(...answers: Answer[]) {
  const response = {session: {}};
  await using server = await ScriptedServer.start(
    getSession,
    response,
    answers,
  );
  const backoff = new Backoff({firstDelayMs: 1, maxDelayMs: 2});
  const connections = new Connections(server.address, {});
  const client = new Client(connections, 240_000, backoff, {absentMs: 0});
  const request = create(GetSessionRequestSchema);
  try {
    return [
      await client.call(getSession, request),
      await client.call(getSession, request),
    ].length;
  } finally {
    await connections.close(0);
  }
}

test('a server that has answered is waited for until the deadline', async () => {
  expect(await call('ok', LOST, LOST, LOST, 'ok')).toBe(2);
  expect(await call(STARTING, LOST, STARTING, 'ok')).toBe(2);
  await expect(call(LOST, 'ok')).rejects.toMatchObject({attempts: 1});
});
