/** What the service offers beyond ADK's interface: the past of a session, its expiry, and watches. */

import {create} from '@bufbuild/protobuf';
import {
  BaseSessionService,
  type GetSessionConfig,
  type Session,
} from '@google/adk';
import {randomUUID} from 'node:crypto';
import {
  jsonForm,
  PAGE_SIZE,
  scopeOf,
  sessionKey,
  type Client,
  type ScopeAddress,
  type SessionAddress,
} from './client.js';
import {SessiondAlreadyExistsError, sessionNotFound} from './errors.js';
import {
  BatchGetEventsRequestSchema,
  EventService,
  ListEventsRequestSchema,
} from './gen/sessiond/v1/event_service_pb.js';
import {
  ForkSessionRequestSchema,
  RewindSessionRequestSchema,
  SessionService,
  UpdateSessionRequestSchema,
} from './gen/sessiond/v1/session_service_pb.js';
import {readPossiblyCreated, readSession} from './reading.js';
import {decodeSession} from './sessions.js';
import {readStateOf} from './state.js';
import {present, withState} from './state_pages.js';
import {
  decodeRef,
  decodeStored,
  encodeRef,
  type StoredEvent,
} from './stored.js';
import {
  addressOf,
  refuseOtherLife,
  writeTo,
  type SessionTarget,
} from './target.js';
import {durationOf, millisOf, timestampOf} from './times.js';
import {Watch, type WatchOptions} from './watch.js';

/** The methods of the service on the past and the future of a session. */
export abstract class History extends BaseSessionService {
  /** @internal */
  protected readonly client: Client;

  /** @internal */
  constructor(client: Client) {
    super();
    this.client = client;
  }

  /**
   * Reads the session as it was right after an event, with the state of all
   * scopes; 0: as it was created. Undefined if it does not exist.
   *
   * @throws SessiondError: BEYOND_LAST_SEQUENCE.
   */
  async getSessionAsOf(
    request: SessionAddress & {
      readonly sequence: number;
      readonly config?: GetSessionConfig;
    },
  ): Promise<Session | undefined> {
    const {config, sequence} = request;
    return readSession(this.client, request, config, sequence);
  }

  /**
   * A session's events with their sequences, oldest first, page by page.
   *
   * @throws SessiondNotFoundError: the session does not exist.
   */
  async *listEvents(
    request: SessionAddress & {
      readonly afterSequence?: number;
      readonly includeRewound?: boolean;
    },
  ): AsyncGenerator<StoredEvent> {
    const {afterSequence = 0, includeRewound = false} = request;
    const message = create(ListEventsRequestSchema, {
      key: sessionKey(request),
      selection: {afterSequence: BigInt(afterSequence), includeRewound},
    });
    for await (const stored of this.client.listEvents(message)) {
      yield decodeStored(stored);
    }
  }

  /**
   * Reads events of a session by their ids (`string`) and sequences (`number`),
   * also those that a rewind hid. Returns them in the order of `refs`, one that
   * is named twice twice, and the refs that name no event. Without refs it sends
   * nothing.
   *
   * @throws SessiondNotFoundError: the session does not exist.
   * @throws SessiondInvalidError: an id is empty or a sequence negative
   * (INVALID_ARGUMENT).
   * @throws RangeError: a sequence is no safe integer.
   * @throws TypeError: a ref is neither a string nor a number.
   */
  async getEvents(
    request: SessionAddress & {readonly refs: readonly (string | number)[]},
  ): Promise<{found: StoredEvent[]; missing: (string | number)[]}> {
    const key = sessionKey(request);
    const refs = request.refs.map(encodeRef);
    const found: StoredEvent[] = [];
    const missing: (string | number)[] = [];
    for (let at = 0; at < refs.length; at += PAGE_SIZE) {
      const message = create(BatchGetEventsRequestSchema, {
        key,
        refs: refs.slice(at, at + PAGE_SIZE),
        jsonForm,
      });
      do {
        const {batchGetEvents} = EventService.method;
        const page = await this.client.call(batchGetEvents, message);
        found.push(...page.events.map(decodeStored));
        missing.push(...page.missing.map(decodeRef));
        message.pageToken = page.nextPageToken;
      } while (message.pageToken);
    }
    return {found, missing};
  }

  /**
   * Creates a session with the events of another up to a sequence (default:
   * all), and its state as of then. Returns it without events; `getSession`
   * reads them.
   *
   * @throws SessiondNotFoundError: the session does not exist.
   * @throws SessiondAlreadyExistsError: the new id is taken.
   */
  async forkSession(
    request: SessionTarget & {
      readonly upToSequence?: number;
      readonly newSessionId?: string;
    },
  ): Promise<Session> {
    const {upToSequence} = request;
    const source = addressOf(request);
    const sessionId = request.newSessionId || randomUUID();
    const upTo = upToSequence === undefined ? undefined : BigInt(upToSequence);
    const message = create(ForkSessionRequestSchema, {
      ...writeTo(request),
      sessionId,
      jsonForm,
      ...(upTo !== undefined && {upToSequence: upTo}),
    });
    try {
      const {session} = await this.client.call(
        SessionService.method.forkSession,
        message,
      );
      const stored = present(session, 'session');
      return decodeSession(await withState(this.client, stored));
    } catch (error) {
      if (!(error instanceof SessiondAlreadyExistsError)) {
        throw error;
      }
      // The response of an earlier attempt may be lost. A fork has no creation label, but it names its source.
      const target = sessionKey({...source, sessionId});
      const found = await readPossiblyCreated(this.client, error, target);
      const origin = found?.forkedFrom;
      const isOwn =
        origin?.key?.sessionId === source.sessionId &&
        (upTo === undefined || origin.sequence === upTo);
      if (!found || !isOwn) {
        throw error;
      }
      return decodeSession(found);
    }
  }

  /**
   * Rewinds a session to an event (0: as created), and reads it.
   *
   * `getSession` no longer shows the events after it; `listEvents` with
   * `includeRewound` does, and a rewind can be rewound. Application and user
   * state stay.
   *
   * @throws SessiondNotFoundError: the session does not exist.
   */
  async rewindSession(
    request: SessionTarget & {
      readonly toSequence: number;
      readonly author?: string;
    },
  ): Promise<Session> {
    const message = create(RewindSessionRequestSchema, {
      ...writeTo(request),
      toSequence: BigInt(request.toSequence),
      eventId: randomUUID(),
      author: request.author ?? '',
      jsonForm,
    });
    const {rewindSession} = SessionService.method;
    const rewound = await this.client.call(rewindSession, message);
    const address = addressOf(request);
    const session = await readSession(this.client, address);
    if (!session) {
      const {appName, userId, sessionId} = address;
      throw sessionNotFound(appName, userId, sessionId);
    }
    const found = readStateOf(session)?.uid ?? '';
    refuseOtherLife(address, rewound.session?.uid ?? '', found);
    return session;
  }

  /**
   * Sets when a session expires: `at` a time, `afterMs` from the commit, or
   * never (neither). Returns the expiry in milliseconds since 1970 on the
   * server's clock; undefined for never.
   *
   * An expired session is as if deleted: its events and its own state are gone,
   * application and user state stay. Using the session does not postpone the
   * expiry; calling this again does.
   *
   * @throws SessiondNotFoundError: the session does not exist.
   * @throws SessiondInvalidError: the time is not in the future.
   */
  async expireSession(
    request: SessionTarget & {readonly at?: number; readonly afterMs?: number},
  ): Promise<number | undefined> {
    const {at, afterMs} = request;
    if (at !== undefined && afterMs !== undefined) {
      throw new TypeError('Both at and afterMs are given. Pass at most one.');
    }
    const message = create(UpdateSessionRequestSchema, {
      ...writeTo(request),
      session: {},
      updateMask: {paths: [afterMs === undefined ? 'expire_time' : 'ttl']},
    });
    const session = present(message.session, 'session');
    if (at !== undefined) {
      session.expiration = {case: 'expireTime', value: timestampOf(at)};
    } else if (afterMs !== undefined) {
      session.expiration = {case: 'ttl', value: durationOf(afterMs)};
    }
    const updated = await this.client.call(
      SessionService.method.updateSession,
      message,
    );
    const {expiration} = present(updated.session, 'session');
    return expiration.case === 'expireTime'
      ? millisOf(expiration.value)
      : undefined;
  }

  /**
   * Watches the committed changes of a session, a user or an application:
   * `for await (const item of service.watch({appName}))`. `Watch` describes the
   * items, and how a watch resumes when the connection breaks.
   */
  watch(options: ScopeAddress & WatchOptions): Watch {
    return new Watch(this.client, scopeOf(options), options);
  }
}
