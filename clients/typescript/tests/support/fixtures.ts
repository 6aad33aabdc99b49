/** Sessions and events for tests, and services under test. */

import {
  createEvent,
  createEventActions,
  InMemorySessionService,
  type BaseSessionService,
  type CompositeSessionKey,
  type CreateEventParams,
  type Event,
  type GetSessionConfig,
  type Session,
} from '@google/adk';
import {afterAll, beforeAll, describe, expect} from 'vitest';
import type {SessiondSessionService} from '../../src/index.js';
import {connect, Server, STORES} from './server.js';

let applications = 0;

/** The address of a session in an application that no other test uses. */
export function newKey(): CompositeSessionKey {
  return {appName: `app-${++applications}`, userId: 'user', sessionId: 's'};
}

export function textEvent(text: string, more: CreateEventParams = {}): Event {
  return createEvent({
    author: 'user',
    content: {role: 'user', parts: [{text}]},
    ...more,
  });
}

export function deltaEvent(
  stateDelta: Record<string, unknown>,
  more: CreateEventParams = {},
): Event {
  const actions = createEventActions({stateDelta});
  return createEvent({author: 'agent', actions, ...more});
}

/** Reads a session that must exist. */
export async function read(
  service: BaseSessionService,
  key: CompositeSessionKey,
  config?: GetSessionConfig,
): Promise<Session> {
  const session = await service.getSession({...key, ...(config && {config})});
  expect(session).toBeDefined();
  return session!;
}

export function ids(session: Session): string[] {
  return session.events.map(({id}) => id);
}

/** What JSON holds of a value, without the order of members. */
export function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

/** Runs the scenario on `service` and on ADK's memory service. The results must be equal; returns them. */
export async function sameAsMemory(
  service: BaseSessionService,
  scenario: (service: BaseSessionService) => Promise<unknown>,
): Promise<unknown> {
  const found = await scenario(service);
  expect(found).toEqual(await scenario(new InMemorySessionService()));
  return found;
}

export interface Target {
  server: Server;
  service: SessiondSessionService;
}

/** A server for the tests of the current `describe`, and a service on it. */
export function onStore(store: string): () => Target {
  let target: Target;
  beforeAll(async () => {
    const server = await Server.start(store);
    target = {server, service: connect(server.address)};
  });
  afterAll(async () => {
    await target.service.close();
    await target.server[Symbol.asyncDispose]();
  });
  return () => target;
}

/** Describes tests that run on each kind of store. */
export function onEachStore(
  name: string,
  tests: (target: () => Target) => void,
): void {
  describe.each(STORES)(`${name} (%s)`, store => tests(onStore(store)));
}
