/** Finds events of a session: by id, sequence, invocation and trace, and by any text in them. */

import {TEXT, call} from './api.js';
import type {Address, Event} from './contract.js';
import {tryJson, type Json} from './json.js';

interface Hit {
  sequence: number;
  author: string;
  /** The part of the event that has the text. */
  place: string;
  /** The text with some around it. */
  snippet: string;
}

export interface Found {
  hits: Hit[];
  /** The last event that was looked at. */
  seen: number;
}

const PAGE_SIZE = 500;
const MAX_HITS = 500;
const AROUND = 40;
/** Bytes of an event id. */
const MAX_ID = 128;

/** Finds more and more: first the events that the text names, by an index of the server. */
export async function* find(
  key: Address,
  text: string,
  includeRewound: boolean,
  abort: AbortSignal,
): AsyncGenerator<Found> {
  const sequence = /^#?([1-9]\d{0,14})$/.exec(text)?.[1];
  const isId = new TextEncoder().encode(text).length <= MAX_ID;
  const refs = [...(sequence ? [{sequence}] : []), ...(isId ? [{eventId: text}] : [])];
  const request = {key, refs, ...TEXT};
  const named = refs.length > 0 ? await call('EventService/BatchGetEvents', request, abort) : {};
  const hits = (named.events ?? []).map(event => {
    const place = event.eventId === text ? 'event id' : 'sequence';
    return hitAt(event, place, event.eventId ?? '');
  });
  yield {hits, seen: 0};
  const known = new Set(hits.map(hit => hit.sequence));
  let pageToken = '';
  do {
    const page = {key, pageSize: PAGE_SIZE, pageToken, selection: {includeRewound}, ...TEXT};
    const {events = [], nextPageToken = ''} = await call('EventService/ListEvents', page, abort);
    const found = events.filter(event => !known.has(Number(event.sequence)));
    hits.push(...found.flatMap(event => hitOf(event, text) ?? []));
    pageToken = nextPageToken;
    yield {hits: [...hits], seen: Number(events.at(-1)?.sequence ?? 0)};
  } while (pageToken && hits.length < MAX_HITS);
}

function hitAt({sequence, author = ''}: Event, place: string, snippet: string): Hit {
  return {sequence: Number(sequence), author, place, snippet};
}

/** The first place of an event that has the text. Case does not count. */
export function hitOf(event: Event, text: string): Hit | undefined {
  const needle = text.toLowerCase();
  for (const [place, value] of placesOf(event)) {
    const at = value.toLowerCase().indexOf(needle);
    if (at >= 0) {
      const start = Math.max(0, at - AROUND);
      return hitAt(event, place, value.slice(start, at + needle.length + AROUND));
    }
  }
  return undefined;
}

function* placesOf(event: Event): Generator<[string, string]> {
  yield ['event id', event.eventId ?? ''];
  yield ['invocation', event.invocationId ?? ''];
  yield ['trace', event.traceId ?? ''];
  yield ['author', event.author ?? ''];
  yield ['branch', event.branch ?? ''];
  yield* textsOf('body', event.bodyJson);
  yield* textsOf('state', event.stateDelta?.setJson);
}

/** The texts in a JSON, without escapes. Then all of it, with names and numbers. */
function* textsOf(place: string, json = ''): Generator<[string, string]> {
  const all: Json[] = [tryJson(json) ?? null];
  for (let value = all.pop(); value !== undefined; value = all.pop()) {
    if (typeof value === 'string') {
      yield [place, value];
    } else if (value instanceof Map || Array.isArray(value)) {
      for (const member of value.values()) {
        all.push(member);
      }
    }
  }
  yield [place, json];
}
