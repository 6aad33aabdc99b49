/**
 * A session service for the Agent Development Kit (ADK) that stores sessions in sessiond.
 *
 *     import {Runner} from '@google/adk';
 *     import {SessiondSessionService} from 'sessiond-adk';
 *
 *     const sessionService = new SessiondSessionService('127.0.0.1:50051');
 *     const runner = new Runner({appName: 'my_app', agent, sessionService});
 *
 * Layout, from the top down:
 *
 * * `service.ts` implements ADK's `BaseSessionService`; `extensions.ts` and `history.ts` add what that
 *   interface lacks.
 * * `append.ts` appends an event and updates the caller's session, one append at a time (`locks.ts`);
 *   `stale.ts` says what an outdated session comes to.
 * * `target.ts` says which life of a session id a write means; `well_formed.ts` refuses ids that cannot be sent.
 * * `watch.ts` follows a scope; `reading.ts` and `listing.ts` read sessions, `state_pages.ts` reads state.
 * * `events.ts`, `canonical.ts` (with `shape.ts` and `compaction.ts`), `sessions.ts`, `operations.ts`, `state.ts`, `json.ts` and `times.ts` convert
 *   between ADK's objects and messages (`gen/`, which `generate` writes).
 * * `client.ts` calls the server: `channel.ts` keeps the channel, `retry.ts` the delays between attempts.
 * * `credentials.ts` reads TLS and token files, `metadata.ts` makes the metadata of a call.
 * * `errors.ts` and `status.ts` map statuses to errors; `log.ts` warns; `address.ts` parses addresses.
 */

export type {ChannelSettings} from './channel.js';
export type {ScopeAddress, SessionAddress} from './client.js';
export type {CredentialFiles} from './credentials.js';
export {
  SessiondAlreadyExistsError,
  SessiondClosedError,
  SessiondConflictError,
  SessiondDeadlineError,
  SessiondError,
  SessiondInvalidError,
  SessiondNotFoundError,
  SessiondPermissionDeniedError,
  SessiondStaleError,
  SessiondUnauthenticatedError,
  SessiondUnavailableError,
  StateValueError,
} from './errors.js';
export {
  appendToList,
  increment,
  mergePatch,
  remove,
  setIfAbsent,
  type Delta,
  type Operation,
} from './operations.js';
export type {RetryPolicy} from './retry.js';
export {
  SessiondSessionService,
  type AppendWithOperationsRequest,
  type SessiondOptions,
} from './service.js';
export type {Stale} from './stale.js';
export type {StoredEvent} from './stored.js';
export type {SessionTarget} from './target.js';
export {Watch, type WatchItem, type WatchOptions} from './watch.js';
