/** `SessiondSessionService`: ADK's session service interface. */

import {create} from '@bufbuild/protobuf';
import type {
  AppendEventRequest,
  CreateSessionRequest,
  DeleteSessionRequest,
  Event,
  GetSessionRequest,
  ListSessionsRequest,
  ListSessionsResponse,
  Session,
} from '@google/adk';
import {randomUUID} from 'node:crypto';
import {isLocal, parseAddress, type Address} from './address.js';
import {Connections, type ChannelSettings} from './channel.js';
import {Client, jsonForm, sessionKey} from './client.js';
import {SessiondAlreadyExistsError, sessionNotFound} from './errors.js';
import {Extensions} from './extensions.js';
import {
  CreateSessionRequestSchema,
  DeleteSessionRequestSchema,
  SessionService,
} from './gen/sessiond/v1/session_service_pb.js';
import type {Session as StoredSession} from './gen/sessiond/v1/types_pb.js';
import {joinObject} from './json.js';
import {listSessions} from './listing.js';
import type {Operation} from './operations.js';
import {readPossiblyCreated, readSession} from './reading.js';
import {Backoff, type RetryPolicy} from './retry.js';
import {decodeSession} from './sessions.js';
import type {Stale} from './stale.js';
import {encodeDelta} from './state.js';
import {present, withState} from './state_pages.js';
import {addressOf, writeTo, type SessionTarget} from './target.js';

/** This label names the call that created a session, so that a retry recognizes the session of its first attempt. */
export const CREATION_LABEL = 'sessiond-adk/creation';

/** Long enough for a server that restarts or is busy, short enough for a user who waits for a response. */
const DEFAULT_TIMEOUT_MS = 15_000;

/** Time for a local server to come up. One that has never answered is not there, rather than restarting. */
const LOCAL_ABSENT_MS = 3_000;

/** Times that `getOrCreateSession` meets a session that others create and delete again. */
const CREATION_TRIES = 10;

/** Settings of a service. They take precedence over those of a URI. */
export interface SessiondOptions extends ChannelSettings {
  /**
   * Deadline of a call, including its retries. Default: 15,000; 3,000 as long as
   * a server on a loopback address or a Unix socket cannot be reached and has
   * not answered before.
   */
  readonly timeoutMs?: number;
  /** The append from a session object that others have overtaken. Default: `merge`. */
  readonly stale?: Stale;
  /** Maximum and delays of the attempts of a call. */
  readonly retry?: RetryPolicy;
  /** Also sends `temp:` keys, for other processes that work on the same invocation. They are never stored. */
  readonly shareTemp?: boolean;
  /** How long `close` waits for in-flight calls. Default: 5,000. */
  readonly closeGraceMs?: number;
}

/** An append, with operations that the server evaluates in the same commit, after the event's `stateDelta`. */
export interface AppendWithOperationsRequest extends AppendEventRequest {
  readonly operations?: readonly Operation[];
}

/**
 * Stores ADK sessions in sessiond: `new SessiondSessionService('127.0.0.1:50051')`.
 *
 * Times are milliseconds since 1970. State values must have a JSON form.
 *
 * Every method may reject with a `SessiondError`. A request that cannot be
 * encoded rejects with a TypeError or a RangeError before anything is sent. A
 * write that fails because the server is unreachable or slow may have been
 * applied. Only an append of the same event can always be repeated; the README
 * describes the other writes.
 */
export class SessiondSessionService extends Extensions {
  readonly #closeGraceMs: number;

  /**
   * Does not connect; the first call does.
   *
   * @param address `HOST:PORT`, `unix:/PATH`, `sessiond://HOST:PORT`,
   *   `http://HOST:PORT`, `https://HOST:PORT` (TLS) or `sessiond:///PATH` of a
   *   unix socket. A URI may set `timeout` (in seconds) and `stale`:
   *   `sessiond://127.0.0.1:50051?timeout=5&stale=error`.
   * @throws TypeError, RangeError: an invalid address or setting.
   */
  constructor(address = '127.0.0.1:50051', options: SessiondOptions = {}) {
    const parsed = parseAddress(address);
    const settings = settingsOf(parsed);
    const stale = options.stale ?? settings.stale ?? 'merge';
    const timeoutMs = options.timeoutMs ?? settings.timeoutMs;
    super(
      new Client(
        new Connections(parsed, options),
        timeoutMs ?? DEFAULT_TIMEOUT_MS,
        new Backoff(options.retry),
        {
          includeVersions: stale === 'conflict',
          ...(timeoutMs === undefined &&
            isLocal(parsed) && {absentMs: LOCAL_ABSENT_MS}),
        },
      ),
      stale,
      options.shareTemp ?? false,
    );
    this.#closeGraceMs = options.closeGraceMs ?? 5_000;
  }

  /**
   * Creates a session. Without an id, or with an empty one, it gets a UUID. The
   * prefixes of the state's keys pick their scope; `temp:` keys are dropped.
   *
   * @throws SessiondAlreadyExistsError: the id is taken.
   * @throws StateValueError: a value has no JSON form; nothing was sent.
   */
  override async createSession(
    request: CreateSessionRequest,
  ): Promise<Session> {
    const creation = randomUUID();
    const message = this.#creation(request, creation);
    try {
      const {session} = await this.client.call(
        SessionService.method.createSession,
        message,
      );
      return await this.#decode(session);
    } catch (error) {
      if (!(error instanceof SessiondAlreadyExistsError)) {
        throw error;
      }
      // The response of an earlier attempt may be lost. Its session has the label of this call.
      const key = sessionKey(message);
      const found = await readPossiblyCreated(this.client, error, key);
      if (found?.labels[CREATION_LABEL] !== creation) {
        throw error;
      }
      return decodeSession(found);
    }
  }

  /**
   * Reads a session with the events that `config` selects, oldest first;
   * undefined if it does not exist. State and events belong to one moment,
   * however many pages the events fill.
   */
  override async getSession(
    request: GetSessionRequest,
  ): Promise<Session | undefined> {
    return readSession(this.client, request, request.config);
  }

  /** Reads the session, or creates it if it does not exist. Concurrent calls get the same session. */
  override async getOrCreateSession(
    request: CreateSessionRequest,
  ): Promise<Session> {
    const {appName, userId, sessionId} = request;
    if (!sessionId) {
      return this.createSession(request);
    }
    const address = {appName, userId, sessionId};
    const message = this.#creation(request, randomUUID());
    message.allowExisting = true;
    for (let tries = CREATION_TRIES; tries > 0; tries--) {
      const found = await readSession(this.client, address);
      if (found) {
        return found;
      }
      const {session, created} = await this.client.call(
        SessionService.method.createSession,
        message,
      );
      if (created) {
        return this.#decode(session);
      }
      // Somebody else has created it since, and may have appended events.
    }
    // Others create and delete it all the time.
    throw sessionNotFound(appName, userId, sessionId);
  }

  /**
   * Lists the sessions of a user, or of all users, without state and events.
   * Without `order`, the least recently used session comes first.
   */
  override async listSessions(
    request: ListSessionsRequest,
  ): Promise<ListSessionsResponse> {
    return listSessions(this.client, request);
  }

  /**
   * Deletes a session with its events and its own state. A missing session is no
   * error. With a session object, a session that was created under its id since
   * it was read stays.
   */
  override async deleteSession(
    request: DeleteSessionRequest | SessionTarget,
  ): Promise<void> {
    const {appName, userId, sessionId} = addressOf(request);
    if (!appName || !userId || !sessionId) {
      return;
    }
    const message = create(DeleteSessionRequestSchema, {
      ...writeTo(request),
      allowMissing: true,
    });
    await this.client.call(SessionService.method.deleteSession, message);
  }

  /**
   * Appends an event with its delta in one durable commit, and returns `event`.
   *
   * `session` is updated in place: its state becomes the server's state after
   * the commit, including the changes and removals of others, and `event` is
   * added to its events. Events of others are not added; `getSession` and
   * `refresh` read them. A partial event is returned unchanged and changes
   * nothing. An event that is stored already, with the same id and the same
   * content, is not stored again.
   *
   * @throws SessiondNotFoundError: the session does not exist.
   * @throws SessiondStaleError: the session was deleted and its id created anew since the session was read;
   *   with `stale: 'error'`, others have appended since then;
   *   with `stale: 'conflict'`, also for the first append from a copy or a listed session.
   * @throws SessiondConflictError: with `stale: 'conflict'`, others have changed keys that the event writes.
   * @throws SessiondAlreadyExistsError: the session has another event with this id.
   * @throws StateValueError: a value has no JSON form; nothing was sent.
   */
  override async appendEvent({
    session,
    event,
    operations = [],
  }: AppendWithOperationsRequest): Promise<Event> {
    if (!event.partial) {
      await this.appender.append(session, event, operations);
    }
    return event;
  }

  /**
   * Ends watches, waits for in-flight calls, and closes the channel. The next
   * call connects again.
   */
  async close(): Promise<void> {
    await this.client.connections.close(this.#closeGraceMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The ADK session of an answer. */
  async #decode(session: StoredSession | undefined): Promise<Session> {
    const stored = present(session, 'session');
    return decodeSession(await withState(this.client, stored));
  }

  #creation(
    {appName, userId, state, sessionId}: CreateSessionRequest,
    creation: string,
  ) {
    const key = sessionKey({
      appName,
      userId,
      sessionId: sessionId || randomUUID(),
    });
    // A value that is undefined has nothing to remove in a new session.
    const {set} = encodeDelta(state ?? {});
    return create(CreateSessionRequestSchema, {
      appName,
      userId,
      sessionId: key.sessionId,
      stateForm: {case: 'stateJson', value: joinObject(set)},
      session: {labels: {[CREATION_LABEL]: creation}},
      jsonForm,
      includeVersions: this.client.includeVersions,
    });
  }
}

/** The settings of a URI. */
function settingsOf({settings}: Address): {timeoutMs?: number; stale?: Stale} {
  const unknown = [...settings.keys()].filter(
    name => name !== 'timeout' && name !== 'stale',
  );
  if (unknown.length > 0) {
    throw new TypeError(
      `Unknown settings in the address: ${unknown.join(', ')}. Use timeout or stale.`,
    );
  }
  const timeout = settings.get('timeout');
  const stale = settings.get('stale');
  const seconds = timeout ? Number(timeout) : NaN;
  if (timeout !== undefined && Number.isNaN(seconds)) {
    throw new TypeError(
      `timeout is '${timeout}' in the address. It must be a number of seconds.`,
    );
  }
  return {
    ...(timeout !== undefined && {timeoutMs: seconds * 1000}),
    // Checked where it is used.
    ...(stale !== undefined && {stale: stale as Stale}),
  };
}
