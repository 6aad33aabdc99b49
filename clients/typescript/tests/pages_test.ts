/** A page may be empty and still have a token: every list goes on to the last page. */

import type {
  DescMessage,
  DescMethodUnary,
  MessageInitShape,
} from '@bufbuild/protobuf';
import type {GetSessionConfig} from '@google/adk';
import {afterAll, beforeAll, expect, test} from 'vitest';
import {EventService} from '../src/gen/sessiond/v1/event_service_pb.js';
import {SessionService} from '../src/gen/sessiond/v1/session_service_pb.js';
import {StateService} from '../src/gen/sessiond/v1/state_service_pb.js';
import type {SessiondSessionService} from '../src/index.js';
import {FakeServer} from './support/fake_server.js';
import {ids, newKey, read} from './support/fixtures.js';
import {connect} from './support/server.js';

const key = newKey();
let server: FakeServer;
let service: SessiondSessionService;

/** Answers with an empty page, the first item, an empty page, and the second item. Tokens are the numbers of pages. */
function answerInPages<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  one: object,
  other: object,
): void {
  const pages = [{}, one, {}, other];
  server.on(method, request => {
    const at = Number((request as {pageToken?: string}).pageToken || 0);
    const nextPageToken = at + 1 < pages.length ? String(at + 1) : '';
    const page: object = {...pages[at], nextPageToken};
    return [page as MessageInitShape<O>];
  });
}

beforeAll(async () => {
  server = await FakeServer.start();
  service = connect(server.address);
  const {listSessions, getSession} = SessionService.method;
  const [one, other] = ['s', 't'].map(sessionId => ({
    sessions: [{key: {...key, sessionId}}],
  }));
  answerInPages(listSessions, one!, other!);
  server.on(getSession, () => [{session: {key}, nextPageToken: '0'}]);
  answerInPages(
    EventService.method.listEvents,
    {events: [{eventId: 'e1', sequence: 1n}]},
    {events: [{eventId: 'e2', sequence: 2n}]},
  );
  answerInPages(
    StateService.method.getState,
    {stateForm: {case: 'stateJson', value: '{"a":1}'}},
    {stateForm: {case: 'stateJson', value: '{"b":2}'}},
  );
});

afterAll(async () => {
  await service.close();
  await server[Symbol.asyncDispose]();
});

test('lists of sessions', async () => {
  const {sessions, totalItems} = await service.listSessions(key);
  expect(sessions.map(({id}) => id)).toEqual(['s', 't']);
  expect(totalItems).toBe(2);
});

test('lists of events', async () => {
  const sequences = [];
  for await (const {sequence} of service.listEvents(key)) {
    sequences.push(sequence);
  }
  expect(sequences).toEqual([1, 2]);
});

test.each<GetSessionConfig>([{}, {numRecentEvents: 2}, {afterTimestamp: 1000}])(
  'the events of a session: %o',
  async config => {
    expect(ids(await read(service, key, config))).toEqual(['e1', 'e2']);
  },
);

test('state', async () => {
  expect(await service.getState({appName: key.appName})).toEqual({a: 1, b: 2});
});
