/** Reads of sessions, shared by ADK's interface and the extensions. */

import {create} from '@bufbuild/protobuf';
import type {GetSessionConfig, Session} from '@google/adk';
import {
  jsonForm,
  sessionKey,
  type Client,
  type SessionAddress,
} from './client.js';
import {
  SESSION_REPLACED,
  SessiondError,
  SessiondNotFoundError,
} from './errors.js';
import {ListEventsRequestSchema} from './gen/sessiond/v1/event_service_pb.js';
import {
  GetSessionRequestSchema,
  SessionService,
  type GetSessionRequest,
} from './gen/sessiond/v1/session_service_pb.js';
import type {
  SessionKey,
  Session as StoredSession,
} from './gen/sessiond/v1/types_pb.js';
import {decodeSession, selectEvents} from './sessions.js';
import {present, withState} from './state_pages.js';
import {refuseOtherLife} from './target.js';

/** Times that a read meets a session that others delete and create again between its pages. */
const READ_TRIES = 10;

/**
 * The ADK session, now or as of an event, with the events that `config`
 * selects; undefined if it does not exist. State and events belong to one
 * moment, however many pages the events fill. State that does not fit into one
 * answer is read after them, and can be newer.
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
  const request = create(GetSessionRequestSchema, {
    key: sessionKey(address),
    events: selectEvents(config),
    jsonForm,
    includeVersions: client.includeVersions,
    ...(asOfSequence !== undefined && {asOfSequence: BigInt(asOfSequence)}),
  });
  for (let tries = READ_TRIES; ; tries--) {
    try {
      return await readPages(client, request);
    } catch (error) {
      // Also if it was deleted between two pages.
      if (error instanceof SessiondNotFoundError) {
        return undefined;
      }
      if (!isReplaced(error) || tries === 1) {
        throw error;
      }
    }
  }
}

async function readPages(
  client: Client,
  request: GetSessionRequest,
): Promise<Session | undefined> {
  const {key, events: selection, asOfSequence} = request;
  const {getSession} = SessionService.method;
  const page = await client.call(getSession, request);
  const {session, events, nextPageToken: pageToken} = page;
  if (pageToken) {
    const rest = create(ListEventsRequestSchema, {
      ...(key && {key}),
      ...(selection && {selection}),
      pageToken,
    });
    for await (const event of client.listEvents(rest)) {
      events.push(event);
    }
  }
  return (
    session &&
    decodeSession(await withState(client, session, asOfSequence), events)
  );
}

/** Whether another session has the id since the first page. The tokens of pages belong to one session. */
function isReplaced(error: unknown): boolean {
  return (
    error instanceof SessiondError &&
    [SESSION_REPLACED, 'BAD_PAGE_TOKEN'].includes(error.reason)
  );
}

/**
 * The stored session with merged state and without events, now or as of an event.
 *
 * @param uid the life of the session id that is meant; '' for any.
 * @throws SessiondNotFoundError: it does not exist.
 * @throws SessiondStaleError: another session has the id now.
 */
export async function readStoredSession(
  client: Client,
  key: SessionKey,
  uid: string,
  asOfSequence?: bigint,
): Promise<StoredSession> {
  const request = create(GetSessionRequestSchema, {
    key,
    jsonForm,
    includeVersions: client.includeVersions,
    ...(asOfSequence !== undefined && {asOfSequence}),
  });
  const {getSession} = SessionService.method;
  const {session} = await client.call(getSession, request);
  const stored = present(session, 'session');
  refuseOtherLife(key, uid, stored.uid);
  return withState(client, stored, asOfSequence);
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
    return await readStoredSession(client, key, '');
  } catch (failure) {
    if (failure instanceof SessiondNotFoundError) {
      return undefined;
    }
    throw failure;
  }
}
