/**
 * Conversion of events.
 *
 * The body of a stored event has the canonical form, and lacks
 * `actions.stateDelta`, which is sent as the typed delta.
 */

import {create} from '@bufbuild/protobuf';
import type {Event} from '@google/adk';
import {canonicalBody, readBody} from './canonical.js';
import {
  EventSchema,
  type StateDelta,
  type Event as StoredEvent,
} from './gen/sessiond/v1/types_pb.js';
import {toWellFormed} from './json.js';
import {deltaMessage, type Operation} from './operations.js';
import {
  encodeDelta,
  setOwn,
  type DeltaTexts,
  type StoredValue,
} from './state.js';
import {fromNanos, nanosOf, timestampOf, toNanos} from './times.js';

/** What ADK recognizes an event by. JSON does not hold it. */
const BRAND = Symbol.for('google.adk.event');

/** The event objects that show a stored event. ADK also makes copies of them, under the same ids. */
const originals = new WeakSet<Event>();

export function isOriginal(event: Event): boolean {
  return originals.has(event);
}

/** Records that `event` is stored as it is. */
export function markOriginal(event: Event): void {
  originals.add(event);
}

/** An event as it is sent, and the texts of its delta (`temp:` keys only if they are shared). */
export interface EncodedEvent {
  readonly message: StoredEvent;
  readonly texts: DeltaTexts;
}

export interface EncodeOptions {
  readonly operations?: readonly Operation[];
  readonly shareTemp?: boolean;
  /** The stored values, whose spelling unchanged values keep. */
  readonly before?: ReadonlyMap<string, StoredValue>;
}

/**
 * The event as a message. Does not change `event`.
 *
 * @throws StateValueError: a value of the delta has no JSON form.
 * @throws TypeError: the event has no JSON form.
 * @throws RangeError: the time is outside the years 1 to 9999.
 */
export function encodeEvent(
  event: Event,
  {operations = [], ...options}: EncodeOptions = {},
): EncodedEvent {
  const texts = encodeDelta(event.actions?.stateDelta ?? {}, options);
  const message = create(EventSchema, {
    eventId: event.id,
    invocationId: event.invocationId ?? '',
    author: event.author ?? '',
    branch: event.branch ?? '',
    eventTime: timestampOf(event.timestamp),
    stateDelta: deltaMessage(texts, operations),
    bodyForm: {case: 'bodyJson', value: bodyOf(event)},
  });
  return {message, texts};
}

function bodyOf(event: Event): string {
  try {
    return toWellFormed(
      canonicalBody(event),
      `event ${JSON.stringify(event.id)}`,
    );
  } catch (cause) {
    throw new TypeError(`Event '${event.id}' has no JSON form: ${cause}`, {
      cause,
    });
  }
}

/**
 * The ADK event of a stored one. Never fails: a body that is not ADK's own is
 * read as far as possible.
 *
 * A removed key is null in `stateDelta`, as ADK has no other form for it. Id,
 * invocation, author, branch and time come from the envelope. The body's number
 * is kept if it means the same nanosecond.
 */
export function decodeEvent(stored: StoredEvent): Event {
  const text = stored.bodyForm.case === 'bodyJson' ? stored.bodyForm.value : '';
  const nanos = nanosOf(stored.eventTime);
  const event = readBody(stored.eventId, text);
  event.actions.stateDelta = decodeDelta(stored.stateDelta);
  event.id = stored.eventId;
  event.invocationId = stored.invocationId;
  if (stored.author || event.author !== undefined) {
    event.author = stored.author;
  }
  if (stored.branch) {
    event.branch = stored.branch;
  }
  if (nanosOrUndefined(event.timestamp) !== nanos) {
    event.timestamp = fromNanos(nanos);
  }
  (event as unknown as Record<symbol, unknown>)[BRAND] = true;
  markOriginal(event);
  return event;
}

/** The new value of each key, null for removed keys. */
export function decodeDelta(
  delta: StateDelta | undefined,
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  if (delta?.setForm.case === 'setJson') {
    const set = JSON.parse(delta.setForm.value) as Record<string, unknown>;
    for (const [key, value] of Object.entries(set)) {
      setOwn(values, key, value);
    }
  }
  for (const key of delta?.remove ?? []) {
    setOwn(values, key, null);
  }
  return values;
}

function nanosOrUndefined(ms: unknown): bigint | undefined {
  try {
    return typeof ms === 'number' ? toNanos(ms) : undefined;
  } catch {
    return undefined;
  }
}
