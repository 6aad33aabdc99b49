/** Lists sessions with ADK's totals and pages, which the contract does not have. */

import {create} from '@bufbuild/protobuf';
import {
  createSession,
  type ListSessionsRequest,
  type ListSessionsResponse,
  type Session,
} from '@google/adk';
import {jsonForm, PAGE_SIZE, type Client} from './client.js';
import {
  ListSessionsRequestSchema,
  SessionService,
} from './gen/sessiond/v1/session_service_pb.js';
import {listedState} from './state.js';
import {millisOf} from './times.js';

/**
 * The sessions of a user, or of all users, without state and events, as ADK's
 * interface says. Totals need a walk over all pages, of 1,000 sessions each.
 */
export async function listSessions(
  client: Client,
  request: ListSessionsRequest,
): Promise<ListSessionsResponse> {
  const sessions = await readAll(client, request);
  const {order, limit} = request;
  if (order !== undefined) {
    const sign = order === 'asc' ? 1 : -1;
    sessions.sort(
      (one, other) =>
        sign * (one.lastUpdateTime - other.lastUpdateTime) ||
        one.id.localeCompare(other.id),
    );
  }
  const totalItems = sessions.length;
  if (limit === undefined) {
    return {
      sessions: sessions.slice(request.offset ?? 0),
      page: 1,
      limit: totalItems,
      totalItems,
      totalPages: totalItems === 0 ? 0 : 1,
    };
  }
  const offset =
    request.page === undefined
      ? (request.offset ?? 0)
      : (request.page - 1) * limit;
  const page =
    request.page ?? (limit === 0 ? 1 : Math.floor(offset / limit) + 1);
  return {
    sessions: sessions.slice(offset, offset + limit),
    page,
    limit,
    totalItems,
    totalPages: limit === 0 ? 0 : Math.ceil(totalItems / limit),
  };
}

/** All sessions, the least recently used first. */
async function readAll(
  client: Client,
  {appName, userId}: ListSessionsRequest,
): Promise<Session[]> {
  // No session has an empty name or user. The server would list those of all users.
  if (!appName || userId === '') {
    return [];
  }
  const request = create(ListSessionsRequestSchema, {
    appName,
    userId: userId ?? '',
    pageSize: PAGE_SIZE,
    jsonForm,
  });
  const found = new Map<string, Session>();
  do {
    const page = await client.call(SessionService.method.listSessions, request);
    for (const stored of page.sessions) {
      const {userId = '', sessionId: id = ''} = stored.key ?? {};
      const name = JSON.stringify([userId, id]);
      // A session that is used between two pages is in both. The later one is newer.
      found.delete(name);
      found.set(
        name,
        createSession({
          id,
          appName,
          userId,
          state: listedState({
            address: {appName, userId, sessionId: id},
            sequence: Number(stored.lastSequence),
            uid: stored.uid,
          }),
          lastUpdateTime: millisOf(stored.lastEventTime),
        }),
      );
    }
    request.pageToken = page.nextPageToken;
  } while (request.pageToken);
  return [...found.values()];
}
