/** Appends an event once, even if the call is repeated, and updates the caller's session. */

import {create} from '@bufbuild/protobuf';
import {
  createEventActions,
  trimTempDeltaState,
  type Event,
  type Session,
} from '@google/adk';
import {randomUUID} from 'node:crypto';
import {jsonForm, sessionKey, type Client} from './client.js';
import {
  SESSION_REPLACED,
  SessiondAlreadyExistsError,
  SessiondConflictError,
  SessiondStaleError,
} from './errors.js';
import {
  decodeDelta,
  decodeEvent,
  encodeEvent,
  isOriginal,
  markOriginal,
  type EncodedEvent,
} from './events.js';
import {
  AppendEventRequestSchema,
  AppendEventResponseSchema,
  EventService,
  ListEventsRequestSchema,
  type AppendEventRequest,
  type AppendEventResponse,
} from './gen/sessiond/v1/event_service_pb.js';
import type {
  SessionKey,
  Event as StoredEvent,
} from './gen/sessiond/v1/types_pb.js';
import {canonical} from './json.js';
import {ObjectLocks} from './locks.js';
import {warnOfDamage} from './log.js';
import type {Operation} from './operations.js';
import {readStoredSession} from './reading.js';
import {storedValuesOf} from './sessions.js';
import {Staleness, type Stale} from './stale.js';
import {
  applyOwnChanges,
  applyStoredState,
  isTemp,
  readStateOf,
  setOwn,
  type DeltaTexts,
} from './state.js';
import {present, withState} from './state_pages.js';
import {addressOf, uidOf} from './target.js';
import {millisOf, nanosOf, toNanos} from './times.js';

/** ADK's own update of a session object by an event. Does everything before its first await. */
export type ApplyLocally = (session: Session, event: Event) => Promise<Event>;

export interface AppendSettings {
  readonly stale: Stale;
  readonly shareTemp: boolean;
  readonly applyLocally: ApplyLocally;
}

/** What an append came to: the stored event, and the session after the commit (of a replay: now). */
export interface Appended {
  readonly stored: StoredEvent;
  readonly response: AppendEventResponse;
}

/** Appends events to sessions of one server. */
export class Appender {
  /** Excludes other appends and refreshes of a session object, which share its state object. */
  readonly locks = new ObjectLocks();
  readonly #client: Client;
  readonly #settings: AppendSettings;
  readonly #staleness: Staleness;

  constructor(client: Client, settings: AppendSettings) {
    this.#client = client;
    this.#settings = settings;
    this.#staleness = new Staleness(client, settings.stale);
  }

  /**
   * Appends `event` with its delta and `operations`, and updates `session` and `event`.
   *
   * Both change only after the server has responded. A failed call can be
   * repeated with the same event and takes effect once. Returns undefined if
   * the event is a rewritten one, which stays local.
   *
   * @throws TypeError, RangeError: the request cannot be sent. Nothing was sent.
   * @throws SessiondError: the call failed.
   */
  async append(
    session: Session,
    event: Event,
    operations: readonly Operation[],
  ): Promise<Appended | undefined> {
    const {shareTemp} = this.#settings;
    for (const {key} of operations) {
      if (isTemp(key) && !shareTemp) {
        throw new TypeError(
          `The server cannot change '${key}', which is not shared. Set shareTemp.`,
        );
      }
    }
    const key = sessionKey(addressOf({session}));
    // Every ADK event has an id unless it was removed. Retries need one.
    event.id ||= randomUUID();
    const before = readStateOf(session)?.values;
    const encoded = encodeEvent(event, {
      operations,
      shareTemp,
      ...(before && {before}),
    });
    return this.locks.hold(session.state, () =>
      this.#append(session, event, operations, key, encoded),
    );
  }

  async #append(
    session: Session,
    event: Event,
    operations: readonly Operation[],
    key: SessionKey,
    encoded: EncodedEvent,
  ): Promise<Appended | undefined> {
    if (
      readStateOf(session)?.eventIds.has(event.id) &&
      isCopy(session, event)
    ) {
      trimTempDeltaState(event);
      return undefined;
    }
    const checked = await this.#staleness.check(session, key, event, encoded);
    const request = create(AppendEventRequestSchema, {
      key,
      event: encoded.message,
      returnState: true,
      jsonForm,
      includeVersions: this.#client.includeVersions,
      ...(checked.precondition && {precondition: checked.precondition}),
    });
    const response = await this.#commit(request, session, event, encoded);
    if (!response) {
      trimTempDeltaState(event);
      return undefined;
    }
    const stored = present(response.event, 'event');
    const known = readStateOf(session);
    if (response.session?.stateOmitted && !known?.values) {
      // An object that shows no state yet has nothing but the answer to show it from.
      await withState(this.#client, response.session);
    }
    // From here on without an await, so that no other code sees half of the update.
    const local = updateCaller(
      {session, event, own: encoded.texts, response, readAt: checked.readAt},
      this.#settings.applyLocally,
    );
    addResults(event, operations, decodeDelta(stored.stateDelta));
    markOriginal(event);
    readStateOf(session)?.eventIds.add(event.id);
    await local;
    return {stored, response};
  }

  /** The response, also to an event that was stored before; undefined for one that ADK has rewritten. */
  async #commit(
    request: AppendEventRequest,
    session: Session,
    event: Event,
    encoded: EncodedEvent,
  ): Promise<AppendEventResponse | undefined> {
    try {
      return await this.#client.call(EventService.method.appendEvent, request);
    } catch (error) {
      if (
        !(error instanceof SessiondAlreadyExistsError) &&
        !(error instanceof SessiondStaleError) &&
        !(error instanceof SessiondConflictError)
      ) {
        throw error;
      }
      if (error.reason === SESSION_REPLACED) {
        // Whatever the new session holds, the event does not belong into it.
        throw error;
      }
      // The server may check the precondition before the id: an event that is stored already can fail for either.
      const stored = await this.#findStored(request.key, encoded);
      if (stored && hasEqualContent(stored, encoded)) {
        const key = present(request.key, 'key');
        return create(AppendEventResponseSchema, {
          event: stored,
          replayed: true,
          session: await readStoredSession(this.#client, key, uidOf({session})),
        });
      }
      if (stored && isCopy(session, event) && hasEnvelope(stored, encoded)) {
        return undefined;
      }
      throw error;
    }
  }

  /** The stored event with the id of `encoded`. */
  async #findStored(
    key: SessionKey | undefined,
    {message}: EncodedEvent,
  ): Promise<StoredEvent | undefined> {
    const request = create(ListEventsRequestSchema, {
      ...(key && {key}),
      author: message.author,
      invocationId: message.invocationId,
      selection: {includeRewound: true},
    });
    for await (const stored of this.#client.listEvents(request)) {
      if (stored.eventId === message.eventId) {
        return stored;
      }
    }
    return undefined;
  }
}

/**
 * Whether `event` can be a copy that ADK has put in the place of a stored event,
 * under its id: `TrajectoryThoughtPruningCompactor` does so and appends the
 * copies. The log keeps the original; the copy stays in the caller's list,
 * which it is in already. A new event with an id that is taken is not.
 */
function isCopy(session: Session, event: Event): boolean {
  return !isOriginal(event) && session.events.includes(event);
}

function hasEnvelope(stored: StoredEvent, {message}: EncodedEvent): boolean {
  return (
    stored.invocationId === message.invocationId &&
    stored.author === message.author &&
    stored.branch === message.branch &&
    nanosOf(stored.eventTime) === nanosOf(message.eventTime)
  );
}

/**
 * Whether `stored` has the content of `encoded`. The server's EVENT_ID_REUSED
 * also covers events that differ only in what is not stored with them: `temp:`
 * keys, operations, or the spelling of numbers.
 */
function hasEqualContent(stored: StoredEvent, encoded: EncodedEvent): boolean {
  const again = encodeEvent(decodeEvent(stored));
  return (
    again.message.bodyForm.value === encoded.message.bodyForm.value &&
    comparable(again.texts) === comparable(encoded.texts)
  );
}

/** Removals are left out, as the stored delta lacks those of keys that did not exist, and shows the others as null. */
function comparable({set}: DeltaTexts): string {
  const members = [...set]
    .filter(([key, text]) => !isTemp(key) && text !== 'null')
    .map(([key, text]) => [key, canonical(text)]);
  return JSON.stringify(members.sort());
}

/** Makes the event's delta equal to the stored one for the keys of its operations. */
function addResults(
  event: Event,
  operations: readonly Operation[],
  storedDelta: Readonly<Record<string, unknown>>,
): void {
  if (operations.length > 0) {
    // Events that were made by hand may lack actions.
    event.actions ??= createEventActions();
  }
  for (const {key} of operations) {
    if (Object.hasOwn(storedDelta, key)) {
      setOwn(event.actions.stateDelta, key, storedDelta[key]);
    } else if (!isTemp(key)) {
      // The operation removed a new key that the event itself had set.
      delete event.actions.stateDelta[key];
    }
  }
}

interface Update {
  readonly session: Session;
  readonly event: Event;
  readonly own: DeltaTexts;
  readonly response: AppendEventResponse;
  readonly readAt: number | undefined;
}

/**
 * Updates the caller's `event` and `session` to what is stored.
 *
 * If the sequence was checked, `session` was read at `readAt` and advances no
 * further than its own events. A replay can be answered long after others have
 * appended, and must not hide their events from the next append.
 */
function updateCaller(
  {session, event, own, response, readAt}: Update,
  applyLocally: ApplyLocally,
): Promise<Event> {
  const stored = present(response.session, 'session');
  const sequence = Number(response.event?.sequence);
  const last = Number(stored.lastSequence);
  const contained = readAt !== undefined && sequence <= readAt;
  let reached = last;
  if (readAt !== undefined) {
    reached = sequence === readAt + 1 ? sequence : readAt;
  }
  const current = reached === last;
  if (!current && (contained || reached !== sequence)) {
    // The session contains the event already, or events before it are missing.
    return Promise.resolve(trimTempDeltaState(event));
  }
  const wasListed = session.events.some(({id}) => id === event.id);
  for (const key of own.mended) {
    setOwn(event.actions.stateDelta, key, JSON.parse(own.set.get(key) ?? ''));
  }
  const local = applyLocally(session, event);
  if (contained && !wasListed) {
    session.events.splice(session.events.lastIndexOf(event), 1);
  }
  const values = storedValuesOf(stored);
  if (current && values) {
    const {uid, damagedKeys} = stored;
    warnOfDamage(`session ${session.id}`, damagedKeys);
    applyStoredState(
      session,
      {values, sequence: reached, uid, damagedKeys},
      own,
    );
  } else {
    // The response has no state (for one, if it is too large). The event's own changes are known.
    applyOwnChanges(session, response.event?.stateDelta, reached, own);
  }
  // The event's own number if it is the newest, as in ADK's own services.
  const newest =
    !current || toNanos(event.timestamp) === nanosOf(stored.lastEventTime);
  session.lastUpdateTime = newest
    ? event.timestamp
    : millisOf(stored.lastEventTime);
  return local;
}
