/** One event of a conversation. */

import {useSignal} from '@preact/signals';
import type {Event} from '../contract.js';
import {parseJson, toJson, writeJson, type Json, type JsonObject} from '../json.js';
import type {HiddenRun} from '../log.js';
import {bodyOf} from '../pairs.js';
import {href, route, type Route} from '../route.js';
import type {SessionModel} from '../session.js';
import {readState, scopeOf} from '../state.js';
import {clockText, countText, plain, timeText} from '../text.js';
import {Button, Copy, Filter, Link, Menu, copy, shown, tag} from './common.js';
import {PartView} from './parts.js';
import {Tree} from './tree.js';

const SHOWN_KEYS = 8;

type EventProps = {model: SessionModel; event: Event; isFocused: boolean};

export function EventView({model, event, isFocused}: EventProps) {
  const isRaw = useSignal(false);
  const toggle = () => (isRaw.value = !isRaw.value);
  const {author = '', invocationId, rewindToSequence} = event;
  const sequence = Number(event.sequence);
  const isSelected = sequence === model.at.value;
  const history = (key: string) => model.go({key});
  const {parts, error, facts} = bodyOf(event);
  const isNew = model.log.get(sequence - 1)?.invocationId !== invocationId;
  const flags = {user: author === 'user', selected: isSelected, rewound: event.rewound};
  const classes = Object.entries(flags).flatMap(([name, is]) => (is ? [name] : []));
  return (
    <article
      class={['event', ...classes].join(' ')}
      {...{'aria-posinset': sequence, 'aria-setsize': model.shown.value}}
      {...{'aria-label': `Event ${sequence}, ${plain(author)}`, 'aria-current': isSelected}}
      tabIndex={isFocused ? 0 : -1}>
      {isNew && invocationId && (
        <div class="invocation">
          <Link
            label={['invocation ', shown(invocationId)]}
            run={() => model.go({find: invocationId})}
          />
          <span>{timeText(event.eventTime)}</span>
        </div>
      )}
      <Head {...{event, model, facts, toggle}} />
      <div class="event-body">
        {rewindToSequence !== undefined && <p>Rewind to event {rewindToSequence}</p>}
        {error && <p class="failure">{shown(error, 2000)}</p>}
        {parts.map((part, at) => (
          <PartView key={at} {...{part, model, sequence}} />
        ))}
        <Delta {...{event, history}} />
        {isRaw.value && <RawJson event={event} close={toggle} />}
      </div>
    </article>
  );
}

type HeadProps = {event: Event; model: SessionModel; facts: string[]; toggle: () => void};

function Head({event, model, facts, toggle}: HeadProps) {
  const {author, branch, eventTime, rewound} = event;
  const sequence = Number(event.sequence);
  const click = (click: MouseEvent) => {
    if (!click.ctrlKey && !click.metaKey) {
      click.preventDefault();
      model.pick(sequence);
    }
  };
  const place = href({...route.value, at: sequence});
  return (
    <header class="event-head">
      <a {...{class: 'sequence', href: place, onClick: click}}>{sequence}</a>
      <strong>{shown(author || '(no author)')}</strong>
      {branch && tag(branch)}
      {rewound && tag('hidden by a rewind')}
      <span class="facts">{facts.map(fact => shown(fact, 80))}</span>
      <time dateTime={eventTime}>{clockText(eventTime)}</time>
      <EventMenu {...{event, model, toggle}} />
    </header>
  );
}

function EventMenu({event, model, toggle}: Omit<HeadProps, 'facts'>) {
  const {eventId = '', traceId, invocationId} = event;
  const sequence = Number(event.sequence);
  const link = (to: Partial<Route>) => {
    const place = href({...route.value, at: undefined, base: undefined, find: undefined, ...to});
    return copy(`${location.origin}${location.pathname}${place}`);
  };
  const ask = (kind: 'fork' | 'rewind') =>
    model.mayChange && (() => (model.task.value = {kind, sequence}));
  const items: [string, unknown][] = [
    ['Raw JSON', toggle],
    ['State as of this event', () => model.pick(sequence)],
    ['Copy link', () => link({event: eventId})],
    ['Copy link to the invocation', invocationId && (() => link({find: invocationId}))],
    ['Copy event as JSON', () => copy(writeJson(eventJson(event), 2))],
    ['Copy event id', () => copy(eventId)],
    ['Find its trace', traceId && (() => model.go({find: traceId}))],
    ['Fork here…', ask('fork')],
    ['Rewind to here…', ask('rewind')],
  ];
  return <Menu label={`Actions of event ${sequence}`} items={items} />;
}

/** The changes of state that the event made. */
function Delta({event, history}: {event: Event; history: (key: string) => void}) {
  const limit = useSignal(SHOWN_KEYS);
  const {setJson, remove = []} = event.stateDelta ?? {};
  const changes = [
    ...[...readState(setJson)].map(([key, value]) => [key, shown(writeJson(value), 120)] as const),
    ...remove.map(key => [key, <span class="removed">removed</span>] as const),
  ];
  const rest = changes.length - limit.value;
  return changes.length === 0 ? null : (
    <ul class="delta" aria-label="Changes of state">
      {changes.slice(0, limit.value).map(([key, value]) => (
        <li key={key}>
          <Key name={key} history={history} /> <code>{value}</code>
        </li>
      ))}
      {rest > 0 && <Link label={`${rest} more`} run={() => (limit.value += 100)} />}
    </ul>
  );
}

/** A key of the state, and the way to its history. */
export function Key({name, history}: {name: string; history: (key: string) => void}) {
  const hint = <span class="visually-hidden"> history</span>;
  const label = [shown(name || '(empty key)'), hint];
  return <Button class={`key ${scopeOf(name)}`} label={label} run={() => history(name)} />;
}

/** The event with its body and delta as JSON in place. */
function eventJson({bodyJson, stateDelta: {setJson, remove} = {}, ...event}: Event): Json {
  const json = toJson(event) as JsonObject;
  const delta: JsonObject = new Map();
  if (setJson) {
    delta.set('set', parseJson(setJson));
  }
  if (remove) {
    delta.set('remove', remove);
  }
  if (delta.size > 0) {
    json.set('stateDelta', delta);
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
        <Copy name="copy event" text={() => writeJson(json, 2)} label="the event as JSON" />
        <Link label="close" run={close} />
      </div>
      <Tree json={json} filter={filter.value} open={2} />
    </section>
  );
}

/** Stands for events that a rewind hides. */
export function Hidden({run: {first, last}, show}: {run: HiddenRun; show: () => void}) {
  const text = `${countText(last - first + 1, 'event')} hidden by a rewind (${first}–${last})`;
  return (
    <article class="hidden-run" aria-label={text} tabIndex={-1}>
      {text} <Link label="show" run={show} />
    </article>
  );
}
