/** Finds events of a session: by id, sequence, invocation and trace, and by any text in them. */

import {useSignal} from '@preact/signals';
import {TEXT, call, pages} from '../api.js';
import type {Address, Event} from '../contract.js';
import {tryJson, type Json} from '../json.js';
import type {SessionModel} from '../session.js';
import {countText} from '../text.js';
import {Button, Notice, shown, useRead, useSome} from './common.js';
import {EventLink} from './event.js';

interface Hit {
  sequence: number;
  author: string;
  /** The part of the event that has the text. */
  place: string;
  /** The text with some around it. */
  snippet: string;
}

interface Found {
  hits: Hit[];
  /** The last event that was looked at. */
  seen: number;
  isDone: boolean;
}

const PAGE_SIZE = 500;
const MAX_HITS = 500;
const AROUND = 40;
/** Bytes of an event id. */
const MAX_ID = 128;

/** Yields what is found so far: first the events with this id or sequence, from an index. */
async function* find(
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
  let found: Found = {hits, seen: 0, isDone: false};
  yield found;
  const list = {key, pageSize: PAGE_SIZE, selection: {includeRewound}, ...TEXT};
  for await (const page of pages('EventService/ListEvents', list, abort)) {
    const {events = [], nextPageToken} = page;
    const more = events
      .filter(event => hits.every(hit => hit.sequence !== Number(event.sequence)))
      .flatMap(event => hitOf(event, text) ?? []);
    const seen = Number(events.at(-1)?.sequence ?? found.seen);
    found = {hits: [...found.hits, ...more], seen, isDone: !nextPageToken};
    yield found;
    if (found.hits.length >= MAX_HITS) {
      return;
    }
  }
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

const MORE = 100;
const NOTHING: Found = {hits: [], seen: 0, isDone: false};

type Props = {model: SessionModel; text: string; rewound: boolean};

export function FindResults({model, text, rewound}: Props) {
  const found = useSignal(NOTHING);
  const search = async (abort: AbortSignal) => {
    found.value = NOTHING;
    for await (const part of find(model.address, text, rewound, abort)) {
      found.value = part;
    }
  };
  const {message} = useRead(search, [text, rewound]);
  const {hits, seen, isDone} = found.value;
  const of = [seen, model.newest.value].map(count => count.toLocaleString('en')).join(' of ');
  const [some, more] = useSome(hits, MORE);
  return (
    <section class="found" aria-label="Search results">
      <div class="pane-head">
        <h2>
          <span role="status">{countText(hits.length, 'event')} with</span> {shown(text, 60)}{' '}
          {!isDone && <span class="dim">searched {of}</span>}
        </h2>
        <Button label="Close search" run={() => model.go({find: undefined})} />
      </div>
      <Notice text={message} />
      <ol>
        {some.map(({sequence, author, place, snippet}) => (
          <li key={sequence}>
            <EventLink {...{model, sequence, class: 'hit', run: () => model.select(sequence)}}>
              <span class="sequence">{sequence}</span>
              <span class="dim">{[shown(author, 40), ` · ${place}`]}</span>
              {shown(snippet, 160)}
            </EventLink>
          </li>
        ))}
      </ol>
      {more}
    </section>
  );
}
