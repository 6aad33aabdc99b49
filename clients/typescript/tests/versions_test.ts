/** Versions of keys with `stale: 'conflict'`: where they come from, and which value they belong to. */

import type {CompositeSessionKey, Session} from '@google/adk';
import {expect, test} from 'vitest';
import type {AppendEventRequest} from '../src/gen/sessiond/v1/event_service_pb.js';
import type {
  CreateSessionRequest,
  GetSessionRequest,
} from '../src/gen/sessiond/v1/session_service_pb.js';
import {
  SessiondConflictError,
  type SessiondSessionService,
  type Stale,
} from '../src/index.js';
import {
  deltaEvent,
  newKey,
  onEachStore,
  read,
  textEvent,
} from './support/fixtures.js';
import {Recorder, type Edit} from './support/recorder.js';
import {connect} from './support/server.js';

const KEYS = ['k', 'app:k', 'user:k'];

function all(value: unknown): Record<string, unknown> {
  return Object.fromEntries(KEYS.map(key => [key, value]));
}

/** Makes the server an older one, which does not know versions in sessions. */
const withoutVersions: Edit = message => {
  if ('includeVersions' in message) {
    message.includeVersions = false;
  }
};

/** Removes the state from responses to appends, as the server does if it is too large. */
const withoutState: Edit = message => {
  if (message.$typeName === 'sessiond.v1.AppendEventResponse') {
    const {session} = message as unknown as {session: Record<string, unknown>};
    session['stateForm'] = {case: undefined};
    session['versions'] = {};
  }
};

onEachStore('versions', target => {
  function setUp(stale: Stale = 'conflict', edit?: Edit) {
    const recorder = new Recorder(edit);
    const options = {stale, ...recorder.options};
    const service = connect(target().server.address, options);
    return {key: newKey(), service, recorder, others: target().service};
  }

  async function write(
    service: SessiondSessionService,
    session: Session,
    delta: Record<string, unknown>,
  ): Promise<void> {
    await service.appendEvent({session, event: deltaEvent(delta)});
  }

  test.each<Stale>(['conflict', 'merge', 'error'])(
    'are asked for where appends check them, without a call of their own: %s',
    async stale => {
      const {key, service, recorder} = setUp(stale);
      const created = await service.createSession({...key, state: all(1)});
      await write(service, created, all(2));
      await write(service, created, all(3));
      await write(service, await read(service, key), all(4));
      await service.refresh(created);
      await write(service, created, all(5));
      await service.close();

      expect(recorder.requests('GetState')).toEqual([]);
      const creations =
        recorder.requests<CreateSessionRequest>('CreateSession');
      const reads = recorder.requests<GetSessionRequest>('GetSession');
      const appends = recorder.requests<AppendEventRequest>('AppendEvent');
      expect([creations.length, reads.length, appends.length]).toEqual([
        1, 2, 4,
      ]);
      for (const {includeVersions} of [...creations, ...reads, ...appends]) {
        expect(includeVersions).toBe(stale === 'conflict');
      }
      const checks = appends.flatMap(one => one.precondition?.keys ?? []);
      expect(checks.map(({condition}) => condition.case)).toEqual(
        Array(stale === 'conflict' ? 12 : 0).fill('version'),
      );
    },
  );

  type Source = (
    service: SessiondSessionService,
    key: CompositeSessionKey,
  ) => Promise<Session | undefined>;

  const sources: Record<string, Source> = {
    created: (service, key) =>
      service.createSession({...key, state: all('old')}),
    'created or read': (service, key) =>
      service.getOrCreateSession({...key, state: all('old')}),
    read: async (service, key) => {
      await target().service.createSession({...key, state: all('old')});
      return service.getSession(key);
    },
    'read as of an event': async (service, key) => {
      await target().service.createSession({...key, state: all('old')});
      return service.getSessionAsOf({...key, sequence: 0});
    },
    refreshed: async (service, key) => {
      const session = await service.createSession(key);
      const other = await read(target().service, key);
      await write(target().service, other, all('old'));
      await service.refresh(session);
      return session;
    },
    appended: async (service, key) => {
      const session = await service.createSession(key);
      await write(service, session, all('old'));
      return session;
    },
    'received with an append': async (service, key) => {
      const session = await service.createSession(key);
      const other = await read(target().service, key);
      await write(target().service, other, all('old'));
      await service.appendEvent({session, event: textEvent('x')});
      return session;
    },
  };

  const servers: [string, Edit | undefined][] = [
    ['current', undefined],
    ['older', withoutVersions],
  ];
  const cases = Object.entries(sources).flatMap(([name, source]) =>
    servers.map(([server, edit]) => ({name, source, server, edit})),
  );
  test.each(cases)(
    'a value that is changed and changed back conflicts: $name, $server server',
    async ({source, server, edit}) => {
      const {key, service, others} = setUp('conflict', edit);
      const mine = (await source(service, key))!;
      const other = await read(others, key);
      await write(others, other, all('theirs'));
      for (const name of KEYS) {
        await expect(
          write(service, mine, {[name]: 'mine'}),
        ).rejects.toMatchObject({keys: [name]});
      }
      await write(others, other, all('old'));
      for (const name of KEYS) {
        const append = write(service, mine, {[name]: 'mine'});
        await (server === 'current'
          ? expect(append).rejects.toThrow(SessiondConflictError)
          : append);
      }
      await service.close();
    },
  );

  test.each<{
    name: string;
    edit?: Edit;
    local?: string;
    others: string[];
    shown: string;
    stale: boolean;
  }>([
    {
      name: 'the append brings the value',
      others: ['theirs'],
      shown: 'theirs',
      stale: false,
    },
    {
      name: 'the append brings an equal value',
      others: ['theirs', 'old'],
      shown: 'old',
      stale: false,
    },
    {
      name: 'the response has no state',
      edit: withoutState,
      others: ['theirs'],
      shown: 'old',
      stale: true,
    },
    {
      name: 'no state, and changed back',
      edit: withoutState,
      others: ['theirs', 'old'],
      shown: 'old',
      stale: true,
    },
    {
      name: 'an uncommitted value stays',
      local: 'mine',
      others: ['theirs'],
      shown: 'mine',
      stale: true,
    },
    {
      name: 'an uncommitted value, and changed back',
      local: 'mine',
      others: ['theirs', 'old'],
      shown: 'mine',
      stale: true,
    },
    {
      name: 'nobody has changed it',
      local: 'mine',
      others: [],
      shown: 'mine',
      stale: false,
    },
  ])(
    'are those of the values that the object shows: $name',
    async ({edit, local, others: values, shown, stale}) => {
      for (const name of KEYS) {
        const {key, service, others} = setUp('conflict', edit);
        await others.createSession({...key, state: {[name]: 'old'}});
        const mine = await read(service, key);
        const other = await read(others, key);
        if (local) {
          mine.state[name] = local;
        }
        for (const value of values) {
          await write(others, other, {[name]: value});
        }
        await write(service, mine, {another: 1});
        expect(mine.state[name]).toBe(shown);
        const append = write(service, mine, {[name]: 'mine'});
        await (stale
          ? expect(append).rejects.toThrow(SessiondConflictError)
          : append);
        await service.close();
      }
    },
  );

  test('are replaced by the value after an own write without state in its response', async () => {
    const {key, service, others} = setUp('conflict', withoutState);
    const mine = await service.createSession({...key, state: all(1)});
    await write(service, mine, all(2));
    await write(service, mine, all(3));
    await write(others, await read(others, key), all('theirs'));
    for (const name of KEYS) {
      await expect(write(service, mine, {[name]: 4})).rejects.toThrow(
        SessiondConflictError,
      );
    }
    await service.close();
  });
});
