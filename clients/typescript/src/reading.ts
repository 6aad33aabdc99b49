/** Reads of sessions and state, shared by ADK's interface and the extensions. */

import {create} from '@bufbuild/protobuf';
import type {GetSessionConfig, Session} from '@google/adk';
import {
  jsonForm,
  sessionKey,
  type Client,
  type SessionAddress,
} from './client.js';
import {SessiondNotFoundError, type SessiondError} from './errors.js';
import {ListEventsRequestSchema} from './gen/sessiond/v1/event_service_pb.js';
import {
  GetSessionRequestSchema,
  SessionService,
} from './gen/sessiond/v1/session_service_pb.js';
import {
  GetStateRequestSchema,
  StateService,
} from './gen/sessiond/v1/state_service_pb.js';
import type {
  Scope,
  SessionKey,
  Session as StoredSession,
} from './gen/sessiond/v1/types_pb.js';
import {splitObject} from './json.js';
import {decodeSession, selectEvents} from './sessions.js';

/**
 * The ADK session, now or as of an event, with the events that `config`
 * selects; undefined if it does not exist. State and events belong to one
 * moment, however many pages the events fill.
 */
export async function readSession(
  client: Client,
  address: SessionAddress,
  config?: GetSessionConfig,
  asOfSequence?: number,
): Promise<Session | undefined> {
  if (!address.appName || !address.userId || !address.sessionId) {
    // No session has such a key. The server would look up a bare session id among the sessions of all users.
    return undefined;
  }
  const key = sessionKey(address);
  const selection = selectEvents(config);
  const request = create(GetSessionRequestSchema, {
    key,
    events: selection,
    jsonForm,
    includeVersions: client.includeVersions,
    ...(asOfSequence !== undefined && {asOfSequence: BigInt(asOfSequence)}),
  });
  try {
    const {getSession} = SessionService.method;
    const page = await client.call(getSession, request);
    const {session, events, nextPageToken: pageToken} = page;
    if (pageToken) {
      const rest = create(ListEventsRequestSchema, {key, selection, pageToken});
      for await (const event of client.listEvents(rest)) {
        events.push(event);
      }
    }
    return session && decodeSession(session, events);
  } catch (error) {
    // Also if it was deleted between two pages.
    if (error instanceof SessiondNotFoundError) {
      return undefined;
    }
    throw error;
  }
}

/**
 * The stored session with merged state and without events, now or as of an event.
 *
 * @throws SessiondNotFoundError: it does not exist.
 */
export async function readStoredSession(
  client: Client,
  key: SessionKey,
  asOfSequence?: bigint,
): Promise<StoredSession> {
  const request = create(GetSessionRequestSchema, {
    key,
    jsonForm,
    includeVersions: client.includeVersions,
    ...(asOfSequence !== undefined && {asOfSequence}),
  });
  const {session} = await client.call(
    SessionService.method.getSession,
    request,
  );
  return present(session, 'session');
}

/** The session at `key` if an earlier attempt of the failed call may have created it. */
export async function readPossiblyCreated(
  client: Client,
  error: SessiondError,
  key: SessionKey,
): Promise<StoredSession | undefined> {
  if (error.attempts === 1 || error.reason !== 'SESSION_EXISTS') {
    return undefined;
  }
  try {
    return await readStoredSession(client, key);
  } catch (failure) {
    if (failure instanceof SessiondNotFoundError) {
      return undefined;
    }
    throw failure;
  }
}

/**
 * The texts of the merged state of a scope, with prefixed keys, and of the shared `temp:` keys of an invocation.
 *
 * @throws SessiondNotFoundError: the scope is a session that does not exist.
 */
export async function readState(
  client: Client,
  scope: Scope,
  invocationId = '',
): Promise<Map<string, string>> {
  const request = create(GetStateRequestSchema, {
    scope,
    invocationId,
    jsonForm,
  });
  const {stateForm} = await client.call(StateService.method.getState, request);
  return splitObject(stateForm.case === 'stateJson' ? stateForm.value : '{}');
}

/** A message that the contract promises. */
export function present<T>(message: T | undefined, name: string): T {
  if (message === undefined) {
    throw new TypeError(`The response of the server has no ${name}.`);
  }
  return message;
}
