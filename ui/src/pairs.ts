/** Which result belongs to which call, and bodies that were read before. */

import {readBody, type Body, type Call, type Result} from './body.js';
import type {Event} from './contract.js';

/** How many events a result may be away from its call. */
const REACH = 40;

const bodies = new WeakMap<Event, Body>();

export function bodyOf(event: Event): Body {
  let body = bodies.get(event);
  if (!body) {
    body = readBody(event.bodyJson);
    bodies.set(event, body);
  }
  return body;
}

/** Events by sequence, as far as they are at hand. */
interface Events {
  get(sequence: number): Event | undefined;
}

export interface Paired<T> {
  part: T;
  sequence: number;
}

export function resultOf(events: Events, from: number, call: Call): Paired<Result> | undefined {
  for (let sequence = from; sequence <= from + REACH; sequence += 1) {
    for (const part of partsAt(events, sequence)) {
      if (part.kind === 'result' && belongs(events, [from, call], [sequence, part])) {
        return {part, sequence};
      }
    }
  }
  return undefined;
}

export function callOf(events: Events, from: number, result: Result): Paired<Call> | undefined {
  for (let sequence = from; sequence >= Math.max(1, from - REACH); sequence -= 1) {
    for (const part of partsAt(events, sequence)) {
      if (part.kind === 'call' && belongs(events, [sequence, part], [from, result])) {
        return {part, sequence};
      }
    }
  }
  return undefined;
}

function partsAt(events: Events, sequence: number) {
  const event = events.get(sequence);
  return event ? bodyOf(event).parts : [];
}

/** By id. Older ADKs have none: there the name counts, within an invocation. */
function belongs(
  events: Events,
  [a, call]: [number, Call],
  [b, result]: [number, Result],
): boolean {
  if (call.id || result.id) {
    return call.id === result.id;
  }
  const isSame = events.get(a)?.invocationId === events.get(b)?.invocationId;
  return call.name === result.name && isSame;
}
