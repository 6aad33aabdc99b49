/** Deadlines, retries and errors of calls, against a scripted server. */

import {
  status as Code,
  credentials,
  InterceptingCall,
  Metadata,
} from '@grpc/grpc-js';
import {once} from 'node:events';
import {createServer} from 'node:net';
import {expect, test} from 'vitest';
import {SessionService} from '../src/gen/sessiond/v1/session_service_pb.js';
import {
  SessiondAlreadyExistsError,
  SessiondClosedError,
  SessiondConflictError,
  SessiondDeadlineError,
  SessiondError,
  SessiondInvalidError,
  SessiondNotFoundError,
  SessiondSessionService,
  SessiondStaleError,
  SessiondUnavailableError,
  type SessiondOptions,
} from '../src/index.js';
import {Backoff} from '../src/retry.js';
import {newKey} from './support/fixtures.js';
import {
  ScriptedServer,
  type Answer,
  type Failure,
} from './support/scripted_server.js';

const QUICK = {firstDelayMs: 1, maxDelayMs: 2};
const {getSession} = SessionService.method;
const SESSION = {
  session: {stateForm: {case: 'stateJson', value: '{}'}},
} as const;

/** Calls a server with these answers, and returns what came of it. */
async function call(answers: Answer[], options: SessiondOptions = {}) {
  await using server = await ScriptedServer.start(getSession, SESSION, answers);
  await using service = new SessiondSessionService(server.address, {
    timeoutMs: 240_000,
    retry: QUICK,
    closeGraceMs: 0,
    ...options,
  });
  let error: SessiondError | undefined;
  try {
    await service.getSession(newKey());
  } catch (failure) {
    error = failure as SessiondError;
  }
  return {server, error, calls: server.requests.length};
}

function failure(code: Code, reason?: string, retryable?: string): Failure {
  return {
    code,
    ...(reason && {reason}),
    metadata: retryable ? {retryable} : {},
  };
}

test.each([
  ['yes', failure(Code.RESOURCE_EXHAUSTED, 'OVERLOADED', 'yes'), 2],
  ['same_id', failure(Code.UNKNOWN, 'OUTCOME_UNKNOWN', 'same_id'), 2],
  ['no', failure(Code.UNAVAILABLE, 'SOMETHING', 'no'), 1],
  ['nothing', failure(Code.UNAVAILABLE, 'SOMETHING'), 1],
  [
    'a value of the future',
    failure(Code.UNAVAILABLE, 'SOMETHING', 'perhaps'),
    1,
  ],
  ['UNAVAILABLE without ErrorInfo', failure(Code.UNAVAILABLE), 2],
  [
    'a lost connection',
    {code: Code.INTERNAL, message: 'Received RST_STREAM with code 2'},
    2,
  ],
  [
    'UNAVAILABLE of another domain',
    {...failure(Code.UNAVAILABLE, 'X', 'no'), domain: 'other'},
    2,
  ],
  ['INTERNAL without ErrorInfo', failure(Code.INTERNAL), 1],
  [
    'damaged details',
    {code: Code.UNAVAILABLE, details: Uint8Array.of(255, 255)},
    2,
  ],
] satisfies [string, Failure, number][])(
  'retryable: %s',
  async (_, answer, expected) => {
    const {error, calls} = await call([answer, 'ok']);
    expect(calls).toBe(expected);
    expect(error === undefined).toBe(expected === 2);
  },
);

test('goes on until the server is back', async () => {
  const starting = failure(Code.UNAVAILABLE, 'STARTING', 'yes');
  const {error, calls} = await call([...Array(30).fill(starting), 'ok'], {
    retry: QUICK,
    timeoutMs: 60_000,
  });
  expect([error, calls]).toEqual([undefined, 31]);
});

test('gives up after the attempts of the policy, with the same request in each', async () => {
  const {server, error} = await call(
    [failure(Code.UNAVAILABLE, 'STARTING', 'yes')],
    {retry: {...QUICK, attempts: 3}},
  );
  expect(error).toBeInstanceOf(SessiondUnavailableError);
  expect(error).toMatchObject({
    attempts: 3,
    reason: 'STARTING',
    code: Code.UNAVAILABLE,
    metadata: {retryable: 'yes'},
  });
  expect(server.requests).toEqual([
    server.requests[0],
    server.requests[0],
    server.requests[0],
  ]);
});

test('waits as long as the server asks for', async () => {
  const {server} = await call([
    {
      ...failure(Code.RESOURCE_EXHAUSTED, 'OVERLOADED', 'yes'),
      retryAfterMs: 80,
    },
    'ok',
  ]);
  // Timers may fire a millisecond early.
  expect(server.times[1]! - server.times[0]!).toBeGreaterThanOrEqual(79);
});

test('one deadline holds for all attempts', async () => {
  const {server, error} = await call([failure(Code.UNAVAILABLE), 'ok']);
  expect(error).toBeUndefined();
  // The wire rounds what is left of it.
  expect(Math.abs(server.deadlines[1]! - server.deadlines[0]!)).toBeLessThan(
    5_000,
  );
  // Longer than the deadline, which leaves time for the first attempt.
  const late = await call([
    {...failure(Code.UNAVAILABLE, 'X', 'yes'), retryAfterMs: 300_000},
  ]);
  expect([late.calls, late.error?.reason]).toEqual([1, 'X']);
});

test('a server that does not answer', async () => {
  const {error} = await call(['hang'], {timeoutMs: 100});
  expect(error).toBeInstanceOf(SessiondDeadlineError);
});

test('a server that is not there', async () => {
  await using service = new SessiondSessionService(
    'unix:/nowhere/sessiond.sock',
    {retry: {...QUICK, attempts: 2}},
  );
  await expect(service.getSession(newKey())).rejects.toMatchObject({
    name: 'SessiondUnavailableError',
    attempts: 2,
    reason: '',
  });
});

test.each([
  [Code.ALREADY_EXISTS, 'SESSION_EXISTS', SessiondAlreadyExistsError],
  [Code.INVALID_ARGUMENT, 'BAD_ID', SessiondInvalidError],
  [Code.ABORTED, 'SEQUENCE_CONFLICT', SessiondStaleError],
  [Code.ABORTED, 'SESSION_REPLACED', SessiondStaleError],
  [Code.ABORTED, 'KEY_CONFLICT', SessiondConflictError],
  [Code.FAILED_PRECONDITION, 'TOO_DEEP', SessiondError],
] as const)('%d %s', async (code, reason, kind) => {
  const violations = [
    {field: 'a', description: 'first'},
    {field: 'b', description: 'second'},
  ];
  const {error} = await call([
    {
      code,
      reason,
      metadata: {keys: '["k"]', expected: '1', actual: '2'},
      violations,
    },
  ]);
  expect(error).toBeInstanceOf(kind);
  expect(error).toBeInstanceOf(SessiondError);
  expect(error).toMatchObject({code, reason, name: kind.name, attempts: 1});
  expect(error?.cause).toMatchObject({code});
  if (reason !== 'SEQUENCE_CONFLICT') {
    expect(error?.message).toBe(`a failure; b: second [${reason}]`);
    expect(error?.fieldViolations).toMatchObject(violations);
  }
  if (error instanceof SessiondConflictError) {
    expect(error.keys).toEqual(['k']);
  }
});

test('a missing session is an error where ADK has no value for it', async () => {
  await using server = await ScriptedServer.start(
    SessionService.method.rewindSession,
    {},
    [failure(Code.NOT_FOUND, 'SESSION_NOT_FOUND', 'no')],
  );
  await using service = new SessiondSessionService(server.address);
  await expect(
    service.rewindSession({...newKey(), toSequence: 0}),
  ).rejects.toThrow(SessiondNotFoundError);
});

test('closing ends a call in flight after the grace', async () => {
  await using server = await ScriptedServer.start(getSession, SESSION, [
    'hang',
    'ok',
  ]);
  const service = new SessiondSessionService(server.address, {
    closeGraceMs: 10,
  });
  const pending = service.getSession(newKey());
  pending.catch(() => {});
  await expect.poll(() => server.requests.length).toBe(1);
  await service.close();
  await expect(pending).rejects.toThrow(SessiondClosedError);
  // The next call connects again.
  expect(await service.getSession(newKey())).toBeDefined();
  await service.close();
});

test('closing waits for a call in flight', async () => {
  await using server = await ScriptedServer.start(getSession, SESSION, ['ok']);
  const service = new SessiondSessionService(server.address, {
    closeGraceMs: 240_000,
  });
  const pending = service.getSession(newKey());
  await service.close();
  expect(await pending).toBeDefined();
});

test('closing ends a call that waits for its next attempt', async () => {
  await using server = await ScriptedServer.start(getSession, SESSION, [
    failure(Code.UNAVAILABLE),
  ]);
  const service = new SessiondSessionService(server.address, {
    timeoutMs: 240_000,
    retry: {firstDelayMs: 100_000, maxDelayMs: 100_000},
  });
  const pending = service.getSession(newKey());
  pending.catch(() => {});
  await expect.poll(() => server.requests.length).toBe(1);
  // The failure may still be on its way to the client, and then counts as in flight.
  await service.close();
  await expect(pending).rejects.toThrow(SessiondClosedError);
});

test('delays double up to a limit, and are reduced by up to one half', () => {
  const backoff = new Backoff({firstDelayMs: 100, maxDelayMs: 1000});
  for (const [failed, longest] of [
    [1, 100],
    [2, 200],
    [3, 400],
    [4, 800],
    [5, 1000],
    [2000, 1000],
  ] as const) {
    const delays = Array.from({length: 200}, () => backoff.delayMs(failed));
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(longest / 2);
    expect(Math.max(...delays)).toBeLessThanOrEqual(longest);
    expect(new Set(delays).size).toBeGreaterThan(100);
  }
  expect(backoff.delayMs(1, 5000)).toBe(5000);
  expect(new Backoff().attempts).toBe(Infinity);
});

test('the options of gRPC are used: metadata, interceptors, channel options', async () => {
  const metadata = new Metadata();
  metadata.set('authorization', 'Bearer token');
  let intercepted = 0;
  const {server} = await call(['ok'], {
    metadata,
    channelOptions: {
      'grpc.primary_user_agent': 'mine',
      interceptors: [
        (options, next) => (intercepted++, new InterceptingCall(next(options))),
      ],
    },
  });
  expect(server.metadata[0]?.get('authorization')).toEqual(['Bearer token']);
  expect(String(server.metadata[0]?.get('user-agent'))).toMatch(/^mine /);
  expect(intercepted).toBe(1);
});

test("a token is made for every attempt, and its failure is the caller's own", async () => {
  let made = 0;
  const token = async () => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${++made}`);
    return metadata;
  };
  const {server} = await call([failure(Code.UNAVAILABLE), 'ok'], {
    metadata: token,
  });
  expect(server.metadata.map(one => one.get('authorization'))).toEqual([
    ['Bearer 1'],
    ['Bearer 2'],
  ]);
  const refused = await call(['ok'], {
    metadata: () => Promise.reject(new Error('no token')),
  });
  expect([refused.error?.message, refused.calls]).toEqual(['no token', 0]);
});

test.each([
  ['credentials', {credentials: credentials.createSsl()}, ''],
  ['https', {}, 'https://'],
])('TLS by %s: the server sees a handshake', async (_, options, scheme) => {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const {port} = listener.address() as {port: number};
  const first = new Promise<Buffer>(resolve => {
    listener.on('connection', socket => {
      socket.on('error', () => {});
      socket.once('data', data => {
        resolve(data);
        socket.destroy();
      });
    });
  });
  const service = new SessiondSessionService(`${scheme}127.0.0.1:${port}`, {
    retry: {...QUICK, attempts: 1},
    ...options,
  });
  await expect(service.getSession(newKey())).rejects.toThrow(
    SessiondUnavailableError,
  );
  // A TLS record of a handshake, and not the preface of HTTP/2.
  expect((await first)[0]).toBe(0x16);
  await service.close();
  listener.close();
});
