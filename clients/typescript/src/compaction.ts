/**
 * Compactions, which this ADK has in other members than the canonical form.
 *
 * That has the summary of a range of events in `actions.compaction`. This ADK
 * has members of the event instead (`CompactedEvent`), gives the model the text
 * of the newest summary alone, and leaves out every event up to its end.
 *
 * `isCompacted` beside `actions.compaction` says that this ADK has written it.
 */

import {isCompactedEvent, type CompactedEvent, type Event} from '@google/adk';
import {joinObject, splitObject} from './json.js';
import {isObject, type Json} from './shape.js';
import {fromNanos, toNanos} from './times.js';

/** Seconds stay below it until the year 5138, milliseconds are above it since 1973. */
const LEAST_MILLIS = 1e11;

const RFC_3339 =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$/;

/** The JSON of an event whose compaction, if it has one, is in the canonical form. */
export function writeCompaction(event: Json & {actions?: unknown}): string {
  const {startTime, endTime, compactedContent: text, ...rest} = event;
  if (
    rest['isCompacted'] !== true ||
    typeof startTime !== 'number' ||
    typeof endTime !== 'number' ||
    typeof text !== 'string'
  ) {
    return JSON.stringify(event);
  }
  const content = {role: 'model', parts: [{text}]};
  const compaction = joinObject([
    ['startTimestamp', secondsText(startTime)],
    ['endTimestamp', secondsText(endTime)],
    ['compactedContent', JSON.stringify(content)],
  ]);
  const members = splitObject(JSON.stringify(rest));
  const actions = splitObject(members.get('actions') ?? '{}');
  members.set('actions', joinObject(actions.set('compaction', compaction)));
  return joinObject(members);
}

/** Milliseconds as a decimal of seconds, exact to the nanosecond, which no number is. */
function secondsText(ms: number): string {
  const nanos = toNanos(ms);
  const digits = String(nanos < 0n ? -nanos : nanos).padStart(10, '0');
  return `${nanos < 0n ? '-' : ''}${digits.slice(0, -9)}.${digits.slice(-9)}`;
}

/** Moves the compaction of a body that ADK for TypeScript itself has written into `actions`. */
export function moveCompaction(body: Json, actions: Json): void {
  const {startTime, endTime, compactedContent: text} = body;
  if (body['isCompacted'] !== true || 'compaction' in actions) {
    return;
  }
  for (const name of ['startTime', 'endTime', 'compactedContent']) {
    delete body[name];
  }
  if (
    typeof startTime === 'number' &&
    typeof endTime === 'number' &&
    typeof text === 'string'
  ) {
    actions['compaction'] = {
      startTimestamp: Number(secondsText(startTime)),
      endTimestamp: Number(secondsText(endTime)),
      compactedContent: {role: 'model', parts: [{text}]},
    };
  } else {
    delete body['isCompacted'];
  }
}

/**
 * Reads `actions.compaction` into the members of a compacted event. The summary
 * is also its content, as this ADK writes it, unless it has another. What cannot
 * take the place of the events that it summarizes is removed, and added to
 * `omitted`.
 *
 * @param text the body, whose decimals say more than numbers.
 */
export function readCompaction(
  body: Json,
  actions: Json,
  text: string,
  omitted: string[],
): void {
  const {compaction} = actions;
  if (compaction === undefined) {
    return;
  }
  const isOwn = body['isCompacted'] === true;
  const found = isObject(compaction) && membersOf(compaction, text);
  if (!found) {
    omitted.push('actions.compaction');
  } else {
    Object.assign(body, found);
    Object.assign(compaction, {
      startTimestamp: found.startTime / 1000,
      endTimestamp: found.endTime / 1000,
    });
    body['content'] ??= {
      role: 'model',
      parts: [{text: found.compactedContent}],
    };
  }
  if (!found || isOwn) {
    delete actions['compaction'];
  }
}

function membersOf(compaction: Json, text: string) {
  const {startTimestamp, endTimestamp, compactedContent} = compaction;
  const texts = textsOf(text);
  const startTime = millisOf(startTimestamp, texts.get('startTimestamp'));
  const endTime = millisOf(endTimestamp, texts.get('endTimestamp'));
  const summary = textOf(compactedContent);
  if (startTime === undefined || endTime === undefined || !summary) {
    return undefined;
  }
  return {isCompacted: true, startTime, endTime, compactedContent: summary};
}

/** The texts of the members of `actions.compaction` in the canonical form. */
function textsOf(text: string): Map<string, string> {
  const actions = splitObject(text).get('actions');
  const compaction = actions && splitObject(actions).get('compaction');
  return compaction ? splitObject(compaction) : new Map<string, string>();
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

/**
 * A time in milliseconds, of seconds with `text` as their decimal, or of one of
 * the variants. It is the very number that an event of the same nanosecond has,
 * because ADK compares the two.
 */
function millisOf(value: unknown, text = String(value)): number | undefined {
  if (typeof value === 'number' && Number.isFinite(value)) {
    if (Math.abs(value) >= LEAST_MILLIS) {
      return value;
    }
    const [, sign, whole, fraction = ''] =
      /^(-?)(\d+)(?:\.(\d{1,9})\d*)?$/.exec(text) ?? [];
    return whole === undefined
      ? value * 1000
      : fromNanos(BigInt(`${sign}${whole}${fraction.padEnd(9, '0')}`));
  }
  const [, time, fraction = '', zone] =
    (typeof value === 'string' && RFC_3339.exec(value.toUpperCase())) || [];
  const whole = Date.parse(`${time}${zone}`);
  return Number.isNaN(whole)
    ? undefined
    : fromNanos(BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(9, '0')));
}

/**
 * Other ADKs show the model every summary whose range no later one covers. This
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
      // Compactors of this ADK summarize the content.
      const [part] = event.content?.parts ?? [];
      if (part?.text === event.compactedContent) {
        part.text = both;
      }
      event.compactedContent = both;
    }
    earlier = event;
  }
}
