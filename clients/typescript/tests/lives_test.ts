/** Writes from a session object go to the session that it was read from, and not to another one with its id. */

import type {Message} from '@bufbuild/protobuf';
import type {CompositeSessionKey, Session} from '@google/adk';
import {expect, test} from 'vitest';
import type {Precondition} from '../src/gen/sessiond/v1/types_pb.js';
import {
  increment,
  SessiondStaleError,
  type SessiondSessionService,
  type Stale,
} from '../src/index.js';
import {readStateOf} from '../src/state.js';
import {
  deltaEvent,
  ids,
  newKey,
  onEachStore,
  read,
  textEvent,
} from './support/fixtures.js';
import {Proxy} from './support/proxy.js';
import {Recorder, type Edit} from './support/recorder.js';
import {connect} from './support/server.js';

type Request = Message & {readonly precondition?: Precondition};

const STALES: readonly Stale[] = ['merge', 'conflict', 'error'];

/** How a caller comes to a session object. */
const SOURCES: Record<
  string,
  (
    service: SessiondSessionService,
    key: CompositeSessionKey,
  ) => Promise<Session>
> = {
  createSession: (service, key) =>
    service.createSession({...key, state: {cart: ['old']}}),
  getOrCreateSession: (service, key) => service.getOrCreateSession(key),
  'getOrCreateSession of an existing one': async (service, key) => {
    await service.createSession(key);
    return service.getOrCreateSession(key);
  },
  getSession: async (service, key) => {
    await service.createSession({...key, state: {cart: ['old']}});
    return read(service, key);
  },
  getSessionAsOf: async (service, key) => {
    await service.createSession(key);
    return (await service.getSessionAsOf({...key, sequence: 0}))!;
  },
  listSessions: async (service, key) => {
    await service.createSession(key);
    return (await service.listSessions(key)).sessions[0]!;
  },
  forkSession: async (service, key) => {
    const origin = {...key, sessionId: 'origin'};
    await service.createSession(origin);
    const {sessionId: newSessionId} = key;
    return service.forkSession({...origin, newSessionId});
  },
  rewindSession: async (service, key) => {
    await service.createSession(key);
    return service.rewindSession({...key, toSequence: 0});
  },
  'an append': async (service, key) => {
    const session = await service.createSession(key);
    await service.appendEvent({session, event: deltaEvent({cart: ['a']})});
    return session;
  },
  refresh: async (service, key) => {
    const session = await service.createSession(key);
    await service.refresh(session);
    return session;
  },
  'a shallow copy': async (service, key) => ({
    ...(await service.createSession(key)),
  }),
  'the first append of a deep copy': async (service, key) => {
    const session = structuredClone({...(await service.createSession(key))});
    await service.appendEvent({session, event: deltaEvent({cart: ['a']})});
    return session;
  },
};

/** Every write that takes a session object. */
const WRITES: Record<
  string,
  (service: SessiondSessionService, session: Session) => Promise<unknown>
> = {
  'appendEvent of a delta': (service, session) =>
    service.appendEvent({session, event: deltaEvent({cart: ['late']})}),
  'appendEvent of a text': (service, session) =>
    service.appendEvent({session, event: textEvent('late')}),
  'appendEvent with operations': (service, session) =>
    service.appendEvent({
      session,
      event: textEvent('late'),
      operations: [increment('app:n')],
    }),
  change: (service, session) => service.change(session, {values: {cart: 1}}),
  increment: (service, session) => service.increment(session, 'user:n'),
  appendToList: (service, session) =>
    service.appendToList(session, 'cart', ['late']),
  setIfAbsent: (service, session) => service.setIfAbsent(session, 'late', 1),
  merge: (service, session) => service.merge(session, 'late', {a: 1}),
  remove: (service, session) => service.remove(session, 'cart'),
  updateState: (service, session) =>
    service.updateState({session}, {values: {cart: 'late'}}),
  rewindSession: (service, session) =>
    service.rewindSession({session, toSequence: 0}),
  forkSession: (service, session) =>
    service.forkSession({session, newSessionId: 'fork'}),
  expireSession: (service, session) =>
    service.expireSession({session, afterMs: 1}),
};

onEachStore('lives of a session id', target => {
  /** Deletes the session and creates another one under its id, as somebody else. */
  async function replace(key: CompositeSessionKey): Promise<Session> {
    await target().service.deleteSession(key);
    const state = {cart: ['new']};
    return target().service.createSession({...key, state});
  }

  async function expectUntouched(key: CompositeSessionKey): Promise<void> {
    const {service} = target();
    expect(await read(service, key)).toMatchObject({
      state: {cart: ['new']},
      events: [],
    });
    expect(Object.keys((await read(service, key)).state)).toEqual(['cart']);
    const {sessions} = await service.listSessions(key);
    expect(sessions.map(({id}) => id)).not.toContain('fork');
  }

  for (const stale of STALES) {
    test.each(Object.entries(SOURCES))(
      `${stale}: an append from an object of %s is refused, and sent once`,
      async (_, source) => {
        const key = newKey();
        const recorder = new Recorder();
        const options = {stale, ...recorder.options};
        await using service = connect(target().server.address, options);
        const session = await source(service, key);
        const before = structuredClone({...session, events: ids(session)});
        await replace(key);
        const sent = recorder.all.length;
        const event = deltaEvent({cart: ['late'], 'temp:t': 1});
        const late = service.appendEvent({session, event});
        await expect(late).rejects.toThrow(SessiondStaleError);
        await expect(late).rejects.toMatchObject({
          reason: 'SESSION_REPLACED',
          metadata: {session_id: key.sessionId},
          attempts: 1,
        });
        expect(recorder.all.slice(sent)).toEqual(['AppendEvent']);
        expect({...session, events: ids(session)}).toEqual(before);
        expect(Object.keys(event.actions.stateDelta)).toContain('temp:t');
        await expectUntouched(key);
      },
    );

    test.each(Object.entries(WRITES))(
      `${stale}: %s names the life, and is refused in the next one`,
      async (_, write) => {
        const key = newKey();
        const recorder = new Recorder();
        const options = {stale, ...recorder.options};
        await using service = connect(target().server.address, options);
        const session = await service.createSession({
          ...key,
          state: {cart: ['old']},
        });
        await write(service, session);
        const {uid} = readStateOf(session)!;
        expect(uid).not.toBe('');
        const requests = recorder.all
          .filter(method => /^(Append|Update|Fork|Rewind)/.test(method))
          .flatMap(method => recorder.requests<Request>(method));
        expect(requests.map(({precondition}) => precondition?.uid)).toEqual([
          uid,
        ]);
        const others = {...key, sessionId: 'fork'};
        await target().service.deleteSession(others);
        await replace(key);
        await target().service.updateState(key, {
          values: {'user:n': undefined, 'app:n': undefined},
        });
        const appended = (await read(target().service, key)).events.length;
        const late = write(service, session);
        await expect(late).rejects.toThrow(SessiondStaleError);
        await expect(late).rejects.toMatchObject({reason: 'SESSION_REPLACED'});
        const after = await read(target().service, key);
        expect(after.events).toHaveLength(appended);
        expect(after.state).toEqual({cart: ['new']});
      },
    );
  }

  test('refresh does not make an object one of another session', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession({...key, state: {a: 1}});
    await replace(key);
    await expect(service.refresh(session)).rejects.toMatchObject({
      name: SessiondStaleError.name,
      reason: 'SESSION_REPLACED',
    });
    expect(session.state).toEqual({a: 1});
  });

  test('a deletion by a session object leaves the next session alone', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const next = await replace(key);
    await service.deleteSession({session});
    await expectUntouched(key);
    await service.deleteSession({session: next});
    await service.deleteSession({session: next});
    expect(await service.getSession(key)).toBeUndefined();
  });

  test('a deletion whose response is lost', async () => {
    const key = newKey();
    await using proxy = await Proxy.start(target().server.address);
    await using service = connect(proxy.address);
    const session = await service.createSession(key);
    proxy.loseResponses(1, () => replace(key));
    await service.deleteSession({session});
    expect(proxy.lost).toBe(1);
    await expectUntouched(key);
  });

  test.each(STALES)(
    '%s: an append whose response is lost, and whose session is then replaced',
    async stale => {
      const key = newKey();
      await using proxy = await Proxy.start(target().server.address);
      await using service = connect(proxy.address, {stale});
      const session = await service.createSession(key);
      const event = deltaEvent({cart: ['late']}, {id: 'late'});
      proxy.loseResponses(1, () => replace(key));
      const append = service.appendEvent({session, event});
      await expect(append).rejects.toMatchObject({
        name: SessiondStaleError.name,
        reason: 'SESSION_REPLACED',
        attempts: 2,
      });
      await expectUntouched(key);
    },
  );

  test('the same event in the next session does not count as stored', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const event = textEvent('x', {id: 'e1'});
    const next = await replace(key);
    await service.appendEvent({session: next, event: structuredClone(event)});
    const late = service.appendEvent({session, event});
    await expect(late).rejects.toMatchObject({reason: 'SESSION_REPLACED'});
    expect(session.events).toEqual([]);
  });

  test('a deleted session is not found, as before', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    await service.deleteSession(key);
    const late = service.appendEvent({session, event: textEvent('x')});
    await expect(late).rejects.toMatchObject({reason: 'SESSION_NOT_FOUND'});
  });

  const withoutUid: Edit = message => {
    const {session} = message as {session?: {uid?: string}};
    if (session?.uid) {
      session.uid = '';
    }
  };

  test.each(STALES)(
    '%s: an object without a known uid is written without one',
    async stale => {
      const {server, service: others} = target();
      const key = newKey();
      const recorder = new Recorder(withoutUid);
      const options = {stale, ...recorder.options};
      await using service = connect(server.address, options);
      const session = await service.createSession(key);
      const copy = structuredClone({...(await others.createSession(newKey()))});
      for (const one of [session, copy]) {
        await service.appendEvent({session: one, event: deltaEvent({a: 1})});
      }
      await service.rewindSession({session, toSequence: 0});
      await service.deleteSession({session});
      const uids = recorder.all
        .filter(method => /^(Append|Rewind|Delete)/.test(method))
        .flatMap(method => recorder.requests<Request>(method))
        .map(({precondition}) => precondition?.uid ?? '');
      expect(new Set(uids)).toEqual(new Set(['']));
    },
  );

  test.each(STALES)(
    '%s: an object that borrows the state of another session',
    async stale => {
      const {server} = target();
      const key = newKey();
      await using service = connect(server.address, {stale});
      const session = await service.createSession({...key, state: {a: 1}});
      const other = {...key, sessionId: 'other'};
      await service.createSession(other);
      const borrower = {...session, id: 'other', events: []};
      for (const id of ['e1', 'e2']) {
        const event = deltaEvent({[id]: 1}, {id});
        await service.appendEvent({session: borrower, event});
      }
      expect(await read(service, other)).toMatchObject({
        state: {e1: 1, e2: 1},
        events: [{id: 'e1'}, {id: 'e2'}],
      });
    },
  );

  test('a session that is replaced between two pages is read anew', async () => {
    const {server} = target();
    const key = newKey();
    const session = await target().service.createSession(key);
    const text = 'x'.repeat(900_000);
    for (let number = 0; number < 6; number++) {
      await target().service.appendEvent({session, event: textEvent(text)});
    }
    let pending: Promise<unknown> | undefined;
    const recorder = new Recorder(() => {});
    await using service = connect(server.address, recorder.options);
    const call = service['client'].call.bind(service['client']);
    service['client'].call = async (method, request) => {
      if (method.name === 'ListEvents') {
        pending ??= replace(key);
        await pending;
      }
      return call(method, request);
    };
    expect(await read(service, key)).toMatchObject({
      state: {cart: ['new']},
      events: [],
    });
    expect(pending).toBeDefined();
  });
});
