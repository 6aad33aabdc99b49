/** Responses that leave out the state, as those do whose state is too large. */

import type {MessageInitShape} from '@bufbuild/protobuf';
import {expect, test} from 'vitest';
import {
  EventService,
  type AppendEventResponseSchema,
} from '../src/gen/sessiond/v1/event_service_pb.js';
import {SessiondSessionService} from '../src/index.js';
import {decodeState, storedValues} from '../src/state.js';
import {deltaEvent} from './support/fixtures.js';
import {ScriptedServer} from './support/scripted_server.js';

test("the event's own changes are applied", async () => {
  const response = {
    event: {
      sequence: 8n,
      stateDelta: {
        setForm: {case: 'setJson' as const, value: '{"a":1,"n":7}'},
        remove: ['gone'],
      },
    },
    session: {lastSequence: 8n, lastEventTime: {seconds: 5n}},
  } satisfies MessageInitShape<typeof AppendEventResponseSchema>;
  await using server = await ScriptedServer.start(
    EventService.method.appendEvent,
    response,
    ['ok'],
  );
  await using service = new SessiondSessionService(server.address, {
    stale: 'error',
  });
  const state = decodeState(
    storedValues('{"gone":0,"kept":0,"n":1}'),
    {
      sequence: 7,
      uid: '',
      address: {appName: 'a', userId: 'u', sessionId: 's'},
    },
    [],
  );
  const session = {
    id: 's',
    appName: 'a',
    userId: 'u',
    state,
    events: [],
    lastUpdateTime: 0,
  };
  const event = deltaEvent({a: 1, gone: undefined}, {timestamp: 5000});
  await service.appendEvent({
    session,
    event,
    operations: [{kind: 'increment', key: 'n', by: 6}],
  });
  expect(session).toMatchObject({
    state: {a: 1, kept: 0, n: 7},
    events: [event],
    lastUpdateTime: 5000,
  });
  expect(Object.keys(session.state)).not.toContain('gone');
  await service.appendEvent({session, event: deltaEvent({})});
  expect(server.requests[1]).toMatchObject({
    precondition: {expectedSequence: 8n},
  });
});
