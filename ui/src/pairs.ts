/** Which result belongs to which call, and bodies that were read before. */

import {readBody, type Body, type Call, type Part, type Result} from './body.js';
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

/** The result of a call, in the events behind it. */
export function resultOf(events: Events, from: number, call: Call) {
  return near(events, from, 1, part => part.kind === 'result' && part, call);
}

/** The call that a result belongs to, in the events before it. */
export function callOf(events: Events, from: number, result: Result) {
  return near(events, from, -1, part => part.kind === 'call' && part, result);
}

/** The nearest part with the same id. Older ADKs have none: the name counts in an invocation. */
function near<T extends Call | Result>(
  events: Events,
  from: number,
  step: 1 | -1,
  select: (part: Part) => T | false,
  {id, name}: Call | Result,
) {
  const invocation = events.get(from)?.invocationId;
  for (let sequence = from; Math.abs(sequence - from) <= REACH; sequence += step) {
    const event = events.get(sequence);
    for (const part of event ? bodyOf(event).parts.map(select) : []) {
      const isSame = part && part.name === name && event?.invocationId === invocation;
      if (part && (id || part.id ? part.id === id : isSame)) {
        return {part, sequence};
      }
    }
  }
  return undefined;
}
