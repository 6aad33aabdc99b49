/** Finds events of a session: by id, sequence, invocation and trace, and by any text in them. */

import {TEXT, call} from './api.js';
import type {Address, Event} from './contract.js';
import {tryJson, type Json} from './json.js';

export interface Hit {
  sequence: number;
  author: string;
  /** Where the text is. */
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

/** What is found, more and more. */
export async function* find(
  address: Address,
  text: string,
  includeRewound: boolean,
  abort: AbortSignal,
): AsyncGenerator<Found> {
  const hits = await named(address, text, abort);
  const known = new Set(hits.map(hit => hit.sequence));
  yield {hits, seen: 0};
  let pageToken = '';
  do {
    const selection = {includeRewound};
    const request = {key: address, pageSize: PAGE_SIZE, pageToken, selection, ...TEXT};
    const page = await call('EventService/ListEvents', request, abort);
    const events = page.events ?? [];
    for (const event of events) {
      const hit = known.has(Number(event.sequence)) ? undefined : hitOf(event, text);
      if (hit) {
        hits.push(hit);
      }
    }
    pageToken = page.nextPageToken ?? '';
    yield {hits: [...hits], seen: Number(events.at(-1)?.sequence ?? 0)};
  } while (pageToken && hits.length < MAX_HITS);
}

/** The events that the text names, by an index of the server. */
async function named(address: Address, text: string, abort: AbortSignal): Promise<Hit[]> {
  const bytes = new TextEncoder().encode(text).length;
  const number = /^#?(\d{1,15})$/.exec(text)?.[1];
  const refs = [
    ...(number && Number(number) > 0 ? [{sequence: number}] : []),
    ...(bytes <= 128 ? [{eventId: text}] : []),
  ];
  if (refs.length === 0) {
    return [];
  }
  const page = await call('EventService/BatchGetEvents', {key: address, refs, ...TEXT}, abort);
  return (page.events ?? []).map(event => ({
    sequence: Number(event.sequence),
    author: event.author ?? '',
    place: event.eventId === text ? 'event id' : 'sequence',
    snippet: event.eventId ?? '',
  }));
}

/** Where an event has the text, in whatever case. */
export function hitOf(event: Event, text: string): Hit | undefined {
  const needle = text.toLowerCase();
  for (const [place, value] of placesOf(event)) {
    const at = value.toLowerCase().indexOf(needle);
    if (at >= 0) {
      const start = Math.max(0, at - AROUND);
      const snippet = value.slice(start, at + needle.length + AROUND);
      return {sequence: Number(event.sequence), author: event.author ?? '', place, snippet};
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

/** A text with an escape may read differently from its JSON. */
function* textsOf(place: string, json: string | undefined): Generator<[string, string]> {
  yield [place, json ?? ''];
  if (json?.includes('\\')) {
    for (const text of stringsOf(tryJson(json) ?? null)) {
      yield [place, text];
    }
  }
}

function* stringsOf(json: Json): Generator<string> {
  if (typeof json === 'string') {
    yield json;
  } else if (Array.isArray(json)) {
    for (const item of json) {
      yield* stringsOf(item);
    }
  } else if (json instanceof Map) {
    for (const [name, value] of json) {
      yield name;
      yield* stringsOf(value);
    }
  }
}
