/** One event of a conversation. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import type {Call, Part, Result} from '../body.js';
import {bodyOf, callOf, resultOf} from '../body.js';
import type {Event} from '../contract.js';
import {nestedJson, object, objectOf, toJson, tryJson, writeJson, type Json} from '../json.js';
import type {HiddenRun} from '../log.js';
import {href, route, type Route} from '../route.js';
import type {SessionModel} from '../session.js';
import {readState} from '../state.js';
import {bytesText, clockText, countText, plain, timeText} from '../text.js';
import {Copy, Filter, Link, LongText, Menu, copy, shown, tag, useSome} from './common.js';
import {Key} from './state.js';
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
  const find = () => model.go({find: invocationId});
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
          <Link label={['invocation ', shown(invocationId)]} run={find} />
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
  return (
    <header class="event-head">
      <EventLink {...{model, sequence, class: 'sequence', children: sequence}} />
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
  const items: [string, unknown][] = [
    ['Raw JSON', toggle],
    ['State as of this event', () => model.pick(sequence)],
    ['Copy link', () => link({event: eventId})],
    ['Copy link to the invocation', invocationId && (() => link({find: invocationId}))],
    ['Copy event as JSON', () => copy(writeJson(eventJson(event), 2))],
    ['Copy event id', () => copy(eventId)],
    ['Find its trace', traceId && (() => model.go({find: traceId}))],
    ['Fork here…', model.ask('fork', sequence)],
    ['Rewind to here…', model.ask('rewind', sequence)],
  ];
  return <Menu label={`Actions of event ${sequence}`} items={items} />;
}

/** The changes of state that the event made. */
function Delta({event, history}: {event: Event; history: (key: string) => void}) {
  const {setJson, remove = []} = event.stateDelta ?? {};
  const changes = [
    ...[...readState(setJson)].map(([key, value]) => [key, shown(writeJson(value), 120)] as const),
    ...remove.map(key => [key, <span class="removed">removed</span>] as const),
  ];
  const [some, more] = useSome(changes, SHOWN_KEYS);
  return changes.length === 0 ? null : (
    <ul class="delta" aria-label="Changes of state">
      {some.map(([key, value]) => (
        <li key={key}>
          <Key name={key} history={history} /> <code>{value}</code>
        </li>
      ))}
      {more}
    </ul>
  );
}

/** The event with its body and delta as JSON in place. */
function eventJson({bodyJson, stateDelta, ...event}: Event): Json {
  const delta = object([
    ['set', tryJson(stateDelta?.setJson)],
    ['remove', stateDelta?.remove],
  ]);
  return object([
    ...objectOf(toJson(event)),
    ['stateDelta', delta.size > 0 ? delta : undefined],
    ['body', tryJson(bodyJson)],
  ]);
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

/** Types of images that can neither run scripts nor load other files. */
const IMAGE = /^image\/(?:png|jpeg|gif|webp|avif)$/;
const MAX_IMAGE_CHARACTERS = 4 << 20;

type Context = {model: SessionModel; sequence: number};

export function PartView({part, ...context}: Context & {part: Part}) {
  switch (part.kind) {
    case 'text': {
      // A text that is JSON is shown as such.
      const isJson = nestedJson(part.text) !== undefined;
      return <div class="prose">{isJson ? <Tree json={part.text} /> : <LongText {...part} />}</div>;
    }
    case 'thought':
      return (
        <details class="thought">
          <summary>Thought</summary>
          <LongText text={part.text} />
        </details>
      );
    case 'call':
      return <CallView call={part} {...context} />;
    case 'result':
      return <ResultView result={part} {...context} />;
    case 'data':
      return <Data {...part} />;
    case 'file':
      return <p>{[tag(part.mimeType || 'file'), ' ', shown(part.uri)]}</p>;
    case 'other':
      return <Tree json={part.json} open={2} />;
  }
}

interface LinkProps extends Context {
  children: ComponentChildren;
  class?: string;
  /** Instead of opening the address in this tab. */
  run?: () => void;
}

/** The address of an event. In this tab, it is selected. */
export function EventLink({model, sequence, children, class: name, run}: LinkProps) {
  const click = (click: MouseEvent) => {
    if (!click.ctrlKey && !click.metaKey && !click.shiftKey) {
      click.preventDefault();
      (run ?? (() => model.pick(sequence)))();
    }
  };
  const to = href({...route.value, at: sequence});
  return <a {...{class: name, href: to, onClick: click, children}} />;
}

type ToolProps = {kind: string; json: Json | undefined; children?: ComponentChildren};

/** A call or a result: `children` name it. */
function Tool({kind, json, children}: ToolProps) {
  return (
    <div>
      <h3>
        <span class="dim">{kind}</span> {children}
      </h3>
      {json !== undefined && <Tree json={json} open={2} />}
    </div>
  );
}

/** A call, with its result beside it. */
function CallView({call, model, sequence}: Context & {call: Call}) {
  const {name, args, isLong} = call;
  const result = resultOf(model.log, sequence, call);
  const at = result?.sequence ?? sequence;
  return (
    <div class="tool">
      <Tool kind="call" json={args}>
        {shown(name || '(no name)')} {isLong && tag('long-running')}
      </Tool>
      <Tool
        kind={result ? 'result' : `result ${isLong ? 'comes later' : 'none yet'}`}
        json={result?.part.response}>
        {at !== sequence && <EventLink {...{model, sequence: at}}>event {at}</EventLink>}
      </Tool>
    </div>
  );
}

/** The way to the call that has the result beside it, or the result if that is not at hand. */
function ResultView({result, model, sequence}: Context & {result: Result}) {
  const at = callOf(model.log, sequence, result)?.sequence;
  if (at === undefined) {
    return (
      <div class="tool">
        <Tool kind="result of" json={result.response}>
          {shown(result.name)}
        </Tool>
      </div>
    );
  }
  return at === sequence ? null : (
    <p class="dim">
      Result of {shown(result.name)}, beside its call at{' '}
      <EventLink {...{model, sequence: at}}>event {at}</EventLink>
    </p>
  );
}

function Data({mimeType, base64}: {mimeType: string; base64: string}) {
  const isBroken = useSignal(false);
  const isImage = IMAGE.test(mimeType) && base64.length < MAX_IMAGE_CHARACTERS && !isBroken.value;
  const bytes = Math.floor((base64.replace(/=+$/, '').length * 3) / 4);
  const source = `data:${mimeType};base64,${base64}`;
  const alt = `Image of the event, ${mimeType}`;
  return (
    <figure class="data">
      {isImage && <img src={source} alt={alt} onError={() => (isBroken.value = true)} />}
      <figcaption>
        {tag(mimeType || 'data')} <span class="dim">base64, {bytesText(bytes)}</span>{' '}
        <Copy name="copy" text={() => base64} label="the data as base64" />
      </figcaption>
    </figure>
  );
}
