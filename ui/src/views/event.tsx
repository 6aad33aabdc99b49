/** One event of a conversation. */

import {useSignal} from '@preact/signals';
import type {Event} from '../contract.js';
import {parseJson, toJson, writeJson, type Json, type JsonObject} from '../json.js';
import type {HiddenRun} from '../log.js';
import {bodyOf} from '../pairs.js';
import {href, type Route} from '../route.js';
import type {SessionModel} from '../session.js';
import {readState, scopeOf} from '../state.js';
import {clockText, countText, plain, timeText} from '../text.js';
import {Copy, Filter, Link, Menu, Text, copy} from './common.js';
import {PartView, Tag} from './parts.js';
import {Tree} from './tree.js';

const SHOWN_KEYS = 8;

/** What a conversation lets its events do. */
export interface Actions {
  route: Route;
  select: (sequence: number) => void;
  history: (key: string) => void;
  find: (text: string) => void;
  /** Not offered if the caller may not write. */
  change: ((kind: 'fork' | 'rewind', sequence: number) => void) | undefined;
}

interface EventProps {
  model: SessionModel;
  event: Event;
  actions: Actions;
  isSelected: boolean;
  isFocused: boolean;
}

export function EventView({model, event, actions, isSelected, isFocused}: EventProps) {
  const isRaw = useSignal(false);
  const {author = '', invocationId, rewindToSequence} = event;
  const sequence = Number(event.sequence);
  const {log} = model;
  const {parts, error, facts} = bodyOf(event);
  const isNew = log.get(sequence - 1)?.invocationId !== invocationId;
  const kind = author === 'user' ? 'user' : 'agent';
  const flags = {selected: isSelected, rewound: event.rewound, failed: error};
  const classes = Object.entries(flags).flatMap(([name, is]) => (is ? [name] : []));
  return (
    <article
      class={['event', kind, ...classes].join(' ')}
      aria-posinset={sequence}
      aria-setsize={model.shown.value}
      aria-label={`Event ${sequence}, ${plain(author)}`}
      aria-current={isSelected}
      tabIndex={isFocused ? 0 : -1}>
      {isNew && invocationId && (
        <div class="invocation">
          <Link run={() => actions.find(invocationId)}>
            invocation <Text text={invocationId} />
          </Link>
          <span class="dim">{timeText(event.eventTime)}</span>
        </div>
      )}
      <Head {...{event, actions, facts}} toggle={() => (isRaw.value = !isRaw.value)} />
      <div class="event-body">
        {rewindToSequence !== undefined && <p>Rewind to event {rewindToSequence}</p>}
        {error && (
          <p class="failure">
            <Text text={error} limit={2000} />
          </p>
        )}
        {parts.map((part, at) => (
          <PartView key={at} {...{part, log, sequence, select: actions.select}} />
        ))}
        <Delta event={event} history={actions.history} />
        {isRaw.value && <RawJson event={event} close={() => (isRaw.value = false)} />}
      </div>
    </article>
  );
}

type HeadProps = {event: Event; actions: Actions; facts: string[]; toggle: () => void};

function Head({event, actions, facts, toggle}: HeadProps) {
  const sequence = Number(event.sequence);
  const select = (click: MouseEvent) => {
    if (!click.ctrlKey && !click.metaKey) {
      click.preventDefault();
      actions.select(sequence);
    }
  };
  return (
    <header class="event-head">
      <a
        class="sequence"
        href={href({...actions.route, at: sequence})}
        aria-label={`State as of event ${sequence}`}
        onClick={select}>
        {sequence}
      </a>
      <strong class="author">
        <Text text={event.author || '(no author)'} />
      </strong>
      {event.branch && <Tag text={event.branch} />}
      {event.rewound && <span class="tag">hidden by a rewind</span>}
      <span class="facts">
        {facts.map(fact => (
          <span key={fact}>
            <Text text={fact} limit={80} />
          </span>
        ))}
      </span>
      <time class="dim" dateTime={event.eventTime} title={timeText(event.eventTime)}>
        {clockText(event.eventTime)}
      </time>
      <EventMenu {...{event, actions, toggle}} />
    </header>
  );
}

function EventMenu({event, actions, toggle}: Omit<HeadProps, 'facts'>) {
  const {eventId = '', traceId, invocationId} = event;
  const {route, select, find, change} = actions;
  const sequence = Number(event.sequence);
  const link = (to: Partial<Route>) => {
    const place = href({...route, at: undefined, base: undefined, find: undefined, ...to});
    return copy(`${location.origin}${location.pathname}${place}`);
  };
  return (
    <Menu
      label={`Actions of event ${sequence}`}
      items={[
        ['Raw JSON', toggle],
        ['State as of this event', () => select(sequence)],
        ['Copy link', () => link({event: eventId})],
        ['Copy link to the invocation', invocationId && (() => link({find: invocationId}))],
        ['Copy event as JSON', () => copy(writeJson(eventJson(event), 2))],
        ['Copy event id', () => copy(eventId)],
        ['Find its trace', traceId && (() => find(traceId))],
        ['Fork here…', change && (() => change('fork', sequence))],
        ['Rewind to here…', change && (() => change('rewind', sequence))],
      ]}
    />
  );
}

/** What the event changed in the state. */
function Delta({event, history}: {event: Event; history: (key: string) => void}) {
  const limit = useSignal(SHOWN_KEYS);
  const {setJson, remove = []} = event.stateDelta ?? {};
  const removed = remove.map((key): [string, undefined] => [key, undefined]);
  const changes: [string, Json | undefined][] = [...readState(setJson), ...removed];
  return changes.length === 0 ? null : (
    <ul class="delta" aria-label="Changes of state">
      {changes.slice(0, limit.value).map(([key, value]) => (
        <li key={key}>
          <Key name={key} history={history} />{' '}
          {value === undefined ? (
            <span class="removed">removed</span>
          ) : (
            <code>
              <Text text={writeJson(value)} limit={120} />
            </code>
          )}
        </li>
      ))}
      {limit.value < changes.length && (
        <li>
          <Link run={() => (limit.value += 100)}>
            {countText(changes.length - limit.value, 'key')} more
          </Link>
        </li>
      )}
    </ul>
  );
}

/** A key of the state, and the way to its history. */
export function Key({name, history}: {name: string; history: (key: string) => void}) {
  return (
    <button class={`key ${scopeOf(name)}`} onClick={() => history(name)}>
      <Text text={name || '(empty key)'} />
      <span class="visually-hidden"> history</span>
    </button>
  );
}

/** The event with its body and delta as JSON in place. */
function eventJson({bodyJson, stateDelta, ...event}: Event): Json {
  const json = toJson(event) as JsonObject;
  const {setJson, remove} = stateDelta ?? {};
  const delta = [
    ...(setJson ? [['set', parseJson(setJson)] as [string, Json]] : []),
    ...(remove ? [['remove', remove] as [string, Json]] : []),
  ];
  if (delta.length > 0) {
    json.set('stateDelta', new Map(delta));
  }
  return bodyJson ? json.set('body', parseJson(bodyJson)) : json;
}

function RawJson({event, close}: {event: Event; close: () => void}) {
  const filter = useSignal('');
  const json = eventJson(event);
  return (
    <section class="raw" aria-label={`Raw JSON of event ${event.sequence}`}>
      <div class="pane-tools">
        <Filter label="Search the JSON" set={text => (filter.value = text.toLowerCase())} />
        <Copy text={() => writeJson(json, 2)} label="the event as JSON">
          copy event
        </Copy>
        <Link run={close}>close</Link>
      </div>
      <Tree json={json} filter={filter.value} open={2} />
    </section>
  );
}

/** Stands for events that a rewind hides. */
export function Hidden({run: {first, last}, show}: {run: HiddenRun; show: () => void}) {
  return (
    <article class="hidden-run" aria-label={`Events ${first} to ${last}, hidden`}>
      {countText(last - first + 1, 'event')} hidden by a rewind ({first}–{last}){' '}
      <Link run={show}>show</Link>
    </article>
  );
}
