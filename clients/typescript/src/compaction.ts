/**
 * Compactions of other kits, as this one has them.
 *
 * The other kits keep the summary of a range of events in `actions.compaction`.
 * This kit has members of the event instead (`CompactedEvent`), gives the model
 * the text of the newest summary alone, and leaves out every event up to its
 * end.
 */

import {isCompactedEvent, type CompactedEvent, type Event} from '@google/adk';
import {isObject, type Json} from './shape.js';
import {fromNanos} from './times.js';

/** Seconds stay below it until the year 5138, milliseconds are above it since 1973. */
const LEAST_MILLIS = 1e11;

/** The kits round an event's time to their own precision. */
const ROUNDING_SECONDS = 0.002;

const RFC_3339 =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$/;

/**
 * Reads `actions.compaction` into the members of a compacted event. The summary
 * is also its content, as this kit writes it, unless it has another. What cannot
 * take the place of the events that it summarizes is removed, and added to
 * `omitted`.
 *
 * @param nanos the event's time, which tells the unit of the body's own.
 */
export function readCompaction(
  body: Json,
  actions: Json,
  nanos: bigint,
  omitted: string[],
): void {
  const {compaction} = actions;
  if (compaction === undefined || compaction === null) {
    return;
  }
  const found = isObject(compaction)
    ? membersOf(compaction, body['timestamp'], nanos)
    : undefined;
  if (!found) {
    delete actions['compaction'];
    omitted.push('actions.compaction');
    return;
  }
  Object.assign(body, found);
  body['content'] ??= {
    role: 'model',
    parts: [{text: found.compactedContent}],
  };
}

function membersOf(compaction: Json, written: unknown, nanos: bigint) {
  const {startTimestamp, endTimestamp, compactedContent} = compaction;
  const isMillis = unitOf(written, Number(nanos) / 1e9);
  const startTime = millisOf(startTimestamp, isMillis);
  const endTime = millisOf(endTimestamp, isMillis);
  const text = textOf(compactedContent);
  if (startTime === undefined || endTime === undefined || !text) {
    return undefined;
  }
  return {isCompacted: true, startTime, endTime, compactedContent: text};
}

/** The text of a content, without thoughts; '' if it has none. */
function textOf(content: unknown): string {
  const parts = isObject(content) ? content['parts'] : [];
  const texts = (Array.isArray(parts) ? parts : [])
    .filter(isObject)
    .map(({text, thought}) => (thought === true ? '' : text))
    .filter(text => typeof text === 'string');
  return texts.join('');
}

/** Whether a number of a body is in milliseconds. The body's `timestamp` tells the unit; without it, the magnitude. */
function unitOf(written: unknown, seconds: number): (value: number) => boolean {
  if (typeof written === 'number') {
    if (Math.abs(written - seconds) < ROUNDING_SECONDS) {
      return () => false;
    }
    if (Math.abs(written / 1000 - seconds) < ROUNDING_SECONDS) {
      return () => true;
    }
  }
  return value => Math.abs(value) >= LEAST_MILLIS;
}

/**
 * The time of a body in milliseconds. It is the very number that an event of the
 * same nanosecond has, because ADK compares the two.
 */
function millisOf(
  value: unknown,
  isMillis: (value: number) => boolean,
): number | undefined {
  if (typeof value === 'number' && Number.isFinite(value)) {
    if (isMillis(value)) {
      return value;
    }
    const seconds = Math.floor(value);
    const nanos = Math.round((value - seconds) * 1e9);
    return fromNanos(BigInt(seconds) * 1_000_000_000n + BigInt(nanos));
  }
  const [, time, fraction = '', zone] =
    (typeof value === 'string' && RFC_3339.exec(value.toUpperCase())) || [];
  const whole = Date.parse(`${time}${zone}`);
  return Number.isNaN(whole)
    ? undefined
    : fromNanos(BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(9, '0')));
}

/**
 * Other kits show the model every summary whose range no later one covers. This
 * one shows the newest, so that gets what the ones before it say.
 */
export function joinCompactions(events: readonly Event[]): void {
  let earlier: CompactedEvent | undefined;
  for (const event of events.filter(isCompactedEvent)) {
    if (
      earlier &&
      'compaction' in event.actions &&
      event.startTime > earlier.startTime
    ) {
      event.startTime = earlier.startTime;
      const both = `${earlier.compactedContent}\n${event.compactedContent}`;
      // Compactors of this kit summarize the content.
      const [part] = event.content?.parts ?? [];
      if (part?.text === event.compactedContent) {
        part.text = both;
      }
      event.compactedContent = both;
    }
    earlier = event;
  }
}
