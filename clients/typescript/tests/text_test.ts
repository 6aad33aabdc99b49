/** Texts that UTF-8 cannot encode: values and bodies are mended, ids and keys are refused before anything is sent. */

import {getLogger, LlmAgent, Runner, type Session} from '@google/adk';
import {describe, expect, test, vi} from 'vitest';
import {
  appendToList,
  increment,
  mergePatch,
  remove,
  setIfAbsent,
  StateValueError,
  type SessiondSessionService,
} from '../src/index.js';
import {
  deltaEvent,
  newKey,
  onEachStore,
  read,
  textEvent,
} from './support/fixtures.js';
import {said, ScriptedModel} from './support/model.js';
import {Recorder} from './support/recorder.js';
import {connect} from './support/server.js';

const HALF = '😀'.slice(0, 1);

onEachStore('half of a surrogate pair', target => {
  test('in the answer of a model does not end the turn, nor the next one', async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession(key);
    const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
    const model = new ScriptedModel(said(`cut ${HALF}`), said('whole'));
    const runner = new Runner({
      appName: key.appName,
      agent: new LlmAgent({name: 'a', model, outputKey: 'answer'}),
      sessionService: service,
    });
    const turn = async (text: string) => {
      const newMessage = {role: 'user', parts: [{text}]};
      for await (const event of runner.runAsync({...key, newMessage})) {
        expect(event.errorMessage).toBeUndefined();
      }
    };
    await turn('first');
    expect(await read(service, key)).toMatchObject({
      state: {answer: 'cut \ufffd'},
      events: [{author: 'user'}, {content: {parts: [{text: 'cut \ufffd'}]}}],
    });
    const warned = warn.mock.calls.map(([message]) => String(message));
    expect(warned).toHaveLength(2);
    expect(warned[0]).toContain('state key "answer"');
    expect(warned[1]).toMatch(/^event ".+": replaced/);
    await turn('second');
    expect(model.asked.at(-1)?.texts).toEqual([
      'first',
      'cut \ufffd',
      'second',
    ]);
    expect((await read(service, key)).state).toEqual({answer: 'whole'});
  });

  test('in values: the session object and the event show what is stored', async () => {
    const {service} = target();
    vi.spyOn(getLogger(), 'warn').mockReturnValue();
    const key = newKey();
    const session = await service.createSession({
      ...key,
      state: {created: HALF, 'app:created': [HALF], 'user:created': {a: HALF}},
    });
    const event = deltaEvent({cut: `x${HALF}`, plain: 1});
    const operations = [
      setIfAbsent('once', HALF),
      appendToList('list', [HALF, 'a']),
      mergePatch('object', {[HALF]: HALF}),
    ];
    await service.appendEvent({session, event, operations});
    const expected = {
      created: '\ufffd',
      'app:created': ['\ufffd'],
      'user:created': {a: '\ufffd'},
      cut: 'x\ufffd',
      plain: 1,
      once: '\ufffd',
      list: ['\ufffd', 'a'],
      object: {'\ufffd': '\ufffd'},
    };
    expect(session.state).toEqual(expected);
    expect(event.actions.stateDelta['cut']).toBe('x\ufffd');
    expect(await read(service, key)).toEqual(session);
    // Others can change the key: it does not count as set by the caller and not committed.
    const other = await read(service, key);
    await service.appendEvent({
      session: other,
      event: deltaEvent({cut: 'other'}),
    });
    await service.appendEvent({session, event: textEvent('x')});
    expect(session.state['cut']).toBe('other');
    // The same event again, as after a lost response.
    const again = {...event, actions: {...event.actions}};
    again.actions.stateDelta = {...event.actions.stateDelta, cut: `x${HALF}`};
    await service.appendEvent({session, event: again, operations});
    expect((await read(service, key)).events).toHaveLength(3);
    await service.updateAppState(key, {later: HALF});
    expect(await service.getAppState(key)).toMatchObject({later: '\ufffd'});
  });

  test('names that become equal', async () => {
    const {service} = target();
    vi.spyOn(getLogger(), 'warn').mockReturnValue();
    const session = await service.createSession(newKey());
    const event = deltaEvent({k: {'\ud800': 1, '\ud801': 2}});
    event.customMetadata = {'\ud800': 1, '\ud801': 2};
    await service.appendEvent({session, event});
    expect(session.state).toEqual({k: {'\ufffd': 2}});
  });

  const bad = `id${HALF}`;

  /** What takes an id or a key, and the part of the request that is refused. */
  const ENTRIES: Record<
    string,
    [
      at: string,
      call: (
        service: SessiondSessionService,
        session: Session,
      ) => Promise<unknown>,
    ]
  > = {
    'createSession, id': [
      'sessionId',
      (service, {appName, userId}) =>
        service.createSession({appName, userId, sessionId: bad}),
    ],
    'createSession, user': [
      'userId',
      (service, {appName}) => service.createSession({appName, userId: bad}),
    ],
    'createSession, application': [
      'appName',
      service => service.createSession({appName: bad, userId: 'u'}),
    ],
    'createSession, key': [
      bad,
      (service, {appName, userId}) =>
        service.createSession({appName, userId, state: {[bad]: 1}}),
    ],
    getOrCreateSession: [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.getOrCreateSession({appName, userId, sessionId: bad}),
    ],
    getSession: [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.getSession({appName, userId, sessionId: bad}),
    ],
    getSessionAsOf: [
      'key.userId',
      (service, {appName, id}) =>
        service.getSessionAsOf({
          appName,
          userId: bad,
          sessionId: id,
          sequence: 0,
        }),
    ],
    'listSessions, application': [
      'appName',
      service => service.listSessions({appName: bad}),
    ],
    'listSessions, user': [
      'userId',
      (service, {appName}) => service.listSessions({appName, userId: bad}),
    ],
    deleteSession: [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.deleteSession({appName, userId, sessionId: bad}),
    ],
    'appendEvent, session': [
      'key.sessionId',
      (service, session) =>
        service.appendEvent({
          session: {...session, id: bad},
          event: textEvent('x'),
        }),
    ],
    'appendEvent, event': [
      'event.eventId',
      (service, session) =>
        service.appendEvent({session, event: textEvent('x', {id: bad})}),
    ],
    'appendEvent, invocation': [
      'event.invocationId',
      (service, session) =>
        service.appendEvent({
          session,
          event: textEvent('x', {invocationId: bad}),
        }),
    ],
    'appendEvent, author': [
      'event.author',
      (service, session) =>
        service.appendEvent({session, event: textEvent('x', {author: bad})}),
    ],
    'appendEvent, key': [
      bad,
      (service, session) =>
        service.appendEvent({session, event: deltaEvent({[bad]: 1})}),
    ],
    'appendEvent, removed key': [
      bad,
      (service, session) =>
        service.appendEvent({session, event: deltaEvent({[bad]: undefined})}),
    ],
    change: [
      bad,
      (service, session) =>
        service.change(session, {operations: [increment(bad)]}),
    ],
    increment: [bad, (service, session) => service.increment(session, bad)],
    remove: [bad, (service, session) => service.remove(session, bad)],
    refresh: [
      'key.userId',
      (service, session) => service.refresh({...session, userId: bad}),
    ],
    getState: [
      'scope.userId',
      (service, {appName}) => service.getState({appName, userId: bad}),
    ],
    'getState, invocation': [
      'invocationId',
      (service, {appName}) => service.getState({appName, invocationId: bad}),
    ],
    'updateState, application': [
      'scope.appName',
      service => service.updateState({appName: bad}, {}),
    ],
    'updateState, key': [
      bad,
      (service, {appName}) =>
        service.updateState({appName}, {operations: [remove(`app:${bad}`)]}),
    ],
    updateAppState: [
      bad,
      (service, {appName}) => service.updateAppState({appName}, {[bad]: 1}),
    ],
    updateUserState: [
      bad,
      (service, session) => service.updateUserState(session, {[bad]: 1}),
    ],
    getUserState: [
      'scope.userId',
      (service, {appName}) => service.getUserState({appName, userId: bad}),
    ],
    endInvocation: [
      'invocationId',
      (service, session) => service.endInvocation(session, bad),
    ],
    'forkSession, source': [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.forkSession({appName, userId, sessionId: bad}),
    ],
    'forkSession, new id': [
      'sessionId',
      (service, session) => service.forkSession({session, newSessionId: bad}),
    ],
    rewindSession: [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.rewindSession({
          appName,
          userId,
          sessionId: bad,
          toSequence: 0,
        }),
    ],
    expireSession: [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.expireSession({appName, userId, sessionId: bad}),
    ],
    listEvents: [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.listEvents({appName, userId, sessionId: bad}).next(),
    ],
    getEvents: [
      'key.sessionId',
      (service, {appName, userId}) =>
        service.getEvents({appName, userId, sessionId: bad, refs: [1]}),
    ],
    'getEvents, a ref': [
      'refs.0.ref.value',
      (service, {appName, userId, id}) =>
        service.getEvents({appName, userId, sessionId: id, refs: [bad]}),
    ],
    watch: [
      'scope.userId',
      (service, {appName}) => service.watch({appName, userId: bad}).next(),
    ],
  };

  describe('in an id or a key is refused', () => {
    test.each(Object.entries(ENTRIES))('%s', async (_, [at, call]) => {
      const key = newKey();
      const session = await target().service.createSession(key);
      const recorder = new Recorder();
      await using service = connect(target().server.address, recorder.options);
      const refused = call(service, session);
      await expect(refused).rejects.toThrow(TypeError);
      await expect(refused).rejects.toThrow(at);
      await expect(refused).rejects.toThrow('half of a surrogate pair');
      if (at === bad) {
        await expect(refused).rejects.toThrow(StateValueError);
      }
      expect(recorder.all).toEqual([]);
      expect(session.events).toEqual([]);
    });
  });

  test('every method that takes an address or a key is in the list', () => {
    const tested = Object.keys(ENTRIES).map(name => name.split(',')[0]);
    const others = [
      // They take a session and a key, as `increment` does, through the same code.
      ...['appendToList', 'setIfAbsent', 'merge'],
      // Through `getState`.
      'getAppState',
      'close',
    ];
    const methods = new Set<string>();
    let owner: object = Object.getPrototypeOf(target().service) as object;
    while (owner !== Object.prototype) {
      Object.getOwnPropertyNames(owner).forEach(name => methods.add(name));
      owner = Object.getPrototypeOf(owner) as object;
    }
    ['constructor', 'updateSessionState'].forEach(name => methods.delete(name));
    expect([...new Set([...tested, ...others])].sort()).toEqual(
      [...methods].sort(),
    );
  });

  test('ids of any other text address what a list returned', async () => {
    const {service} = target();
    const {appName, userId} = newKey();
    const given = [
      's',
      's\n',
      ' s',
      's ',
      'é',
      'e\u0301',
      '\ufffd',
      'S',
      '\u200b',
    ];
    for (const sessionId of given) {
      const state = {mine: sessionId};
      await service.createSession({appName, userId, sessionId, state});
    }
    const {sessions} = await service.listSessions({appName, userId});
    expect(sessions.map(({id}) => id).sort()).toEqual([...given].sort());
    for (const session of sessions) {
      const key = {appName, userId, sessionId: session.id};
      await service.appendEvent({session, event: textEvent('x')});
      await service.refresh(session);
      expect(session.state).toEqual({mine: session.id});
      const fork = await service.forkSession(key);
      expect(fork.state).toEqual({mine: session.id});
      const left = await service.listSessions({appName, userId});
      await service.deleteSession({appName, userId, sessionId: fork.id});
      await service.deleteSession({session});
      const after = await service.listSessions({appName, userId});
      const gone = left.sessions
        .map(({id}) => id)
        .filter(id => !after.sessions.some(one => one.id === id));
      expect(gone.sort()).toEqual([fork.id, session.id].sort());
    }
  });

  test('keys are stored as they are', async () => {
    const {service} = target();
    const key = newKey();
    const state = {' k ': 1, 'k\n': 2, 'e\u0301': 3, é: 4, 'app: a': 5};
    const session = await service.createSession({...key, state});
    await service.appendEvent({session, event: deltaEvent({'k ': 6})});
    expect(await read(service, key)).toMatchObject({
      state: {...state, 'k ': 6},
    });
  });
});
