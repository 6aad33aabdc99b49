/** State that does not fit into one answer, and damaged values. */

import type {MessageInitShape} from '@bufbuild/protobuf';
import {getLogger, type Session} from '@google/adk';
import {describe, expect, test, vi} from 'vitest';
import {EventService} from '../src/gen/sessiond/v1/event_service_pb.js';
import {SessionService} from '../src/gen/sessiond/v1/session_service_pb.js';
import {
  StateService,
  type GetStateRequest,
  type GetStateResponseSchema,
} from '../src/gen/sessiond/v1/state_service_pb.js';
import type {SessionSchema} from '../src/gen/sessiond/v1/types_pb.js';
import {WatchService} from '../src/gen/sessiond/v1/watch_service_pb.js';
import {
  SessiondError,
  type SessiondSessionService,
  type Stale,
} from '../src/index.js';
import {FakeServer} from './support/fake_server.js';
import {deltaEvent} from './support/fixtures.js';
import {connect} from './support/server.js';

const KEY = {appName: 'a', userId: 'u', sessionId: 's'};
const EVENT = {eventId: 'e', sequence: 3n};

function json(value: string) {
  return {case: 'stateJson', value} as const;
}

/** Three pages, with the versions of their keys. */
const PAGES: Record<string, MessageInitShape<typeof GetStateResponseSchema>> = {
  '': {
    stateForm: json('{"app:a":1,"app:b":2}'),
    versions: {'app:a': 7n, 'app:b': 8n},
    nextPageToken: 'second',
    uid: 'one',
  },
  second: {
    stateForm: json('{"user:a":12345678901234567890}'),
    versions: {'user:a': 9n},
    nextPageToken: 'third',
    uid: 'one',
  },
  third: {
    stateForm: json('{"k":[1.0]}'),
    versions: {k: 3n},
    uid: 'one',
  },
};
const STATE = {'app:a': 1, 'app:b': 2, 'user:a': 12345678901234567000, k: [1]};

type StoredSession = MessageInitShape<typeof SessionSchema>;

const OMITTED: StoredSession = {
  key: KEY,
  uid: 'one',
  lastSequence: 3n,
  stateOmitted: true,
};

/** A server of one session. */
async function serve({
  stored = OMITTED,
  pages = PAGES,
}: {stored?: StoredSession; pages?: typeof PAGES} = {}) {
  const server = await FakeServer.start();
  const kind = {
    case: 'snapshot',
    value: {stateOmitted: true, uid: 'one', lastSequence: 3n},
  } as const;
  server
    .on(SessionService.method.getSession, () => [{session: stored}])
    .on(SessionService.method.createSession, () => [
      {session: stored, created: true},
    ])
    .on(SessionService.method.forkSession, () => [{session: stored}])
    .on(SessionService.method.rewindSession, () => [{session: stored}])
    .on(SessionService.method.listSessions, () => [{sessions: [stored]}])
    .on(EventService.method.appendEvent, ({event}) => [
      {event: {...EVENT, eventId: event?.eventId ?? ''}, session: stored},
    ])
    .on(StateService.method.updateState, () => [{stateOmitted: true}])
    .on(StateService.method.getState, ({pageToken}) => [pages[pageToken]!])
    .on(WatchService.method.watch, () => [{cursor: 'c', kind}]);
  return server;
}

function requests(server: FakeServer): GetStateRequest[] {
  return server.calls
    .filter(([method]) => method === 'GetState')
    .map(([, request]) => request as GetStateRequest);
}

const READS: Record<
  string,
  (service: SessiondSessionService) => Promise<Session | undefined>
> = {
  getSession: service => service.getSession(KEY),
  createSession: service => service.createSession(KEY),
  getOrCreateSession: service => service.getOrCreateSession(KEY),
  forkSession: service => service.forkSession(KEY),
  rewindSession: service => service.rewindSession({...KEY, toSequence: 0}),
  refresh: async service => {
    const [session] = (await service.listSessions(KEY)).sessions;
    await service.refresh(session!);
    return session;
  },
  'the first append from a listed session': async service => {
    const [session] = (await service.listSessions(KEY)).sessions;
    await service.appendEvent({session: session!, event: deltaEvent({})});
    return session;
  },
};

describe('state in pages', () => {
  test.each(Object.entries(READS))('%s', async (_, readOne) => {
    await using server = await serve();
    await using service = connect(server.address, {stale: 'conflict'});
    const session = await readOne(service);
    expect(session?.state).toEqual(STATE);
    expect(requests(server)).toMatchObject(
      ['', 'second', 'third'].map(pageToken => ({
        pageToken,
        scope: KEY,
        includeVersions: true,
      })),
    );
    // Versions and spelling are those of the pages.
    await service.appendEvent({
      session: session!,
      event: deltaEvent({k: [1, 2], 'app:b': 3}),
    });
    const [, request] = server.calls.findLast(
      ([method]) => method === 'AppendEvent',
    )!;
    expect(request).toMatchObject({
      event: {stateDelta: {setForm: {value: '{"k":[1.0,2],"app:b":3}'}}},
      precondition: {
        uid: 'one',
        keys: [
          {key: 'k', condition: {case: 'version', value: 3n}},
          {key: 'app:b', condition: {case: 'version', value: 8n}},
        ],
      },
    });
  });

  test('an append from an object that was read brings its own changes alone', async () => {
    await using server = await serve();
    await using service = connect(server.address);
    const session = await service.createSession(KEY);
    server.calls.length = 0;
    await service.appendEvent({session, event: deltaEvent({own: 1})});
    expect(server.methods).toEqual(['AppendEvent']);
    expect(session.state).toEqual({...STATE, own: 1});
  });

  test('state without a session object', async () => {
    await using server = await serve();
    await using service = connect(server.address);
    const user = {appName: 'a', userId: 'u'};
    expect(await service.getState(KEY)).toEqual(STATE);
    expect(await service.getAppState(user)).toEqual({a: 1, b: 2});
    expect(await service.updateState(user, {})).toEqual(STATE);
    expect(requests(server)).toHaveLength(9);
  });

  test('the snapshot of a watch', async () => {
    await using server = await serve();
    await using service = connect(server.address);
    const {value} = await service.watch(KEY).next();
    expect(value).toEqual({
      kind: 'snapshot',
      state: STATE,
      lastSequence: 3,
      cursor: 'c',
    });
  });

  test('pages of another session are not mixed in', async () => {
    const pages = {...PAGES, third: {...PAGES['third'], uid: 'two'}};
    const next = {...OMITTED, uid: 'two', stateOmitted: false};
    const states = [OMITTED, OMITTED, next];
    await using server = await serve({pages});
    server.on(SessionService.method.getSession, () => [
      {
        session: {
          ...states.shift(),
          stateForm: json('{"new":1}'),
        },
      },
    ]);
    await using service = connect(server.address);
    expect((await service.getSession(KEY))?.state).toEqual({new: 1});
    expect(states).toEqual([]);
  });

  test('the past, which has no pages', async () => {
    await using server = await serve();
    await using service = connect(server.address);
    const past = service.getSessionAsOf({...KEY, sequence: 2});
    await expect(past).rejects.toThrow(SessiondError);
    await expect(past).rejects.toMatchObject({reason: 'ANSWER_TOO_LARGE'});
  });

  test('an operation that changes nothing returns the value', async () => {
    await using server = await serve();
    await using service = connect(server.address);
    const session = await service.createSession(KEY);
    server.on(StateService.method.getState, ({keys}) => [
      {stateForm: json(`{"${keys}":[1.0]}`)},
    ]);
    expect(await service.setIfAbsent(session, 'k', 0)).toEqual([1]);
  });

  test('a value that fits into no answer is missing, with a warning', async () => {
    const second = {nextPageToken: 'third', stateOmitted: true, uid: 'one'};
    const pages = {...PAGES, second};
    await using server = await serve({pages});
    await using service = connect(server.address);
    const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
    const {'user:a': _, ...rest} = STATE;
    expect((await service.getSession(KEY))?.state).toEqual(rest);
    expect(warn).toHaveBeenCalledExactlyOnceWith(
      'A value of the state does not fit into an answer and is missing.',
    );
  });
});

describe('damaged values', () => {
  const stored: StoredSession = {
    ...OMITTED,
    stateOmitted: false,
    stateForm: json('{"k":1}'),
    damagedKeys: ['app:x', 'user:y'],
  };

  test.each(Object.entries(READS))('are named by %s', async (_, readOne) => {
    await using server = await serve({stored});
    await using service = connect(server.address);
    const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
    expect((await readOne(service))?.state).toEqual({k: 1});
    expect(warn).toHaveBeenCalledExactlyOnceWith(
      'session s: omitted keys with damaged values: app:x, user:y',
    );
  });

  test('are named by reads of state', async () => {
    const pages = {
      ...PAGES,
      second: {...PAGES['second'], damagedKeys: ['user:y']},
    };
    await using server = await serve({pages});
    await using service = connect(server.address);
    const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
    await service.getState(KEY);
    await service.getSession(KEY);
    await service.updateState({appName: 'a'}, {});
    await service.watch(KEY).next();
    server.on(StateService.method.updateState, () => [
      {damagedKeys: ['user:y']},
    ]);
    await service.updateState({appName: 'a'}, {});
    expect(warn.mock.calls).toEqual(
      Array(5).fill(['state: omitted keys with damaged values: user:y']),
    );
  });

  test.each<Stale>(['merge', 'conflict', 'error'])(
    '%s: what a session object showed before stays in it',
    async stale => {
      await using server = await serve({stored});
      const value = '{"k":0,"app:x":[1],"gone":1}';
      server.on(SessionService.method.createSession, () => [
        {
          session: {
            ...stored,
            lastSequence: 2n,
            stateForm: json(value),
            damagedKeys: [],
          },
        },
      ]);
      await using service = connect(server.address, {stale});
      vi.spyOn(getLogger(), 'warn').mockReturnValue();
      const session = await service.createSession(KEY);
      await service.appendEvent({session, event: deltaEvent({})});
      expect(session.state).toEqual({k: 1, 'app:x': [1]});
    },
  );
});
