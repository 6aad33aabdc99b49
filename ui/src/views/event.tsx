/** One event of a conversation. */

import {useSignal} from '@preact/signals';
import type {Event} from '../contract.js';
import {toJson, tryJson, writeJson, type Json} from '../json.js';
import type {HiddenRun} from '../log.js';
import {bodyOf} from '../pairs.js';
import {href, type SessionRoute} from '../route.js';
import type {SessionModel} from '../session.js';
import {readState, scopeOf} from '../state.js';
import {clockText, countText, plain, timeText} from '../text.js';
import {copy, Copy, Menu, Text} from './common.js';
import {Parts} from './parts.js';
import {Tree} from './tree.js';

const SHOWN_KEYS = 8;

/** What a conversation lets its events do. */
export interface Actions {
    route: SessionRoute;
    select: (sequence: number) => void;
    history: (key: string) => void;
    find: (text: string) => void;
    fork?: (sequence: number) => void;
    rewind?: (sequence: number) => void;
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
    const sequence = Number(event.sequence);
    const body = bodyOf(event);
    const isMarker = event.rewindToSequence !== undefined;
    const before = model.log.get(sequence - 1);
    const isNew = !before || before.invocationId !== event.invocationId;
    const kind = event.author === 'user' ? 'user' : isMarker ? 'marker' : 'agent';
    const flags = [isSelected && 'selected', event.rewound && 'rewound', body.error && 'failed'];
    return (
        <article
            class={['event', kind, ...flags.filter(Boolean)].join(' ')}
            aria-posinset={sequence}
            aria-setsize={model.shown.value}
            aria-label={`Event ${sequence}, ${plain(event.author ?? '')}`}
            aria-current={isSelected}
            tabIndex={isFocused ? 0 : -1}>
            {isNew && event.invocationId && <Invocation event={event} actions={actions} />}
            <Head
                {...{event, actions, facts: body.facts}}
                toggle={() => (isRaw.value = !isRaw.value)}
            />
            <div class="event-body">
                {isMarker && <p class="elsewhere">Rewind to event {event.rewindToSequence}</p>}
                {body.error && (
                    <p class="failure">
                        <Text text={body.error} limit={2000} />
                    </p>
                )}
                <Parts
                    parts={isMarker ? [] : body.parts}
                    {...{log: model.log, sequence}}
                    select={actions.select}
                />
                <Delta event={event} actions={actions} />
                {isRaw.value && <Raw event={event} close={() => (isRaw.value = false)} />}
            </div>
        </article>
    );
}

function Invocation({event, actions}: {event: Event; actions: Actions}) {
    const id = event.invocationId ?? '';
    return (
        <div class="invocation">
            <button class="link" title="Find its events" onClick={() => actions.find(id)}>
                invocation <Text text={id} />
            </button>
            <span class="dim">{timeText(event.eventTime)}</span>
        </div>
    );
}

function Head(props: {event: Event; actions: Actions; facts: string[]; toggle: () => void}) {
    const {event, actions, facts, toggle} = props;
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
                href={href({...actions.route, at: sequence, event: undefined})}
                title={`State as of event ${sequence}`}
                onClick={select}>
                {sequence}
            </a>
            <strong class="author">
                <Text text={event.author || '(no author)'} />
            </strong>
            {event.branch && (
                <span class="tag branch" title="Branch">
                    <Text text={event.branch} />
                </span>
            )}
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

function EventMenu({event, actions, toggle}: {event: Event; actions: Actions; toggle: () => void}) {
    const sequence = Number(event.sequence);
    const {fork, rewind, route} = actions;
    const link = () => {
        const place = href({...route, at: undefined, event: event.eventId});
        return copy(`${location.origin}${location.pathname}${place}`);
    };
    const items: [string, (() => unknown) | undefined][] = [
        ['Raw JSON', toggle],
        ['State as of this event', () => actions.select(sequence)],
        ['Copy link', link],
        ['Copy event as JSON', () => copy(writeJson(eventJson(event), 2))],
        ['Copy event id', () => copy(event.eventId ?? '')],
        ['Find its trace', event.traceId ? () => actions.find(event.traceId ?? '') : undefined],
        ['Fork here…', fork && (() => fork(sequence))],
        ['Rewind to here…', rewind && (() => rewind(sequence))],
    ];
    return (
        <Menu label={`Actions of event ${sequence}`}>
            {items.map(
                ([label, run]) =>
                    run && (
                        <button key={label} onClick={() => void run()}>
                            {label}
                        </button>
                    ),
            )}
        </Menu>
    );
}

/** What the event changed in the state. */
function Delta({event, actions}: {event: Event; actions: Actions}) {
    const isWhole = useSignal(false);
    const set = [...readState(event.stateDelta?.setJson)];
    const removed = event.stateDelta?.remove ?? [];
    const changes: [string, Json | undefined][] = [
        ...set,
        ...removed.map((key): [string, undefined] => [key, undefined]),
    ];
    if (changes.length === 0) {
        return null;
    }
    const shown = isWhole.value ? changes : changes.slice(0, SHOWN_KEYS);
    return (
        <ul class="delta" aria-label="Changes of state">
            {shown.map(([key, value]) => (
                <li key={key}>
                    <button
                        class={`key ${scopeOf(key)}`}
                        title="History of the key"
                        onClick={() => actions.history(key)}>
                        <Text text={key || '(empty key)'} />
                    </button>{' '}
                    {value === undefined ? (
                        <span class="removed">removed</span>
                    ) : (
                        <code>
                            <Text text={writeJson(value)} limit={120} />
                        </code>
                    )}
                </li>
            ))}
            {shown.length < changes.length && (
                <li>
                    <button class="link" onClick={() => (isWhole.value = true)}>
                        {countText(changes.length - shown.length, 'key')} more
                    </button>
                </li>
            )}
        </ul>
    );
}

/** The event as JSON, with its body and delta as JSON in place. */
function eventJson(event: Event): Json {
    const {bodyJson, stateDelta, ...rest} = event;
    const json = toJson(rest) as Map<string, Json>;
    if (stateDelta) {
        const {setJson, ...others} = stateDelta;
        const delta = toJson(others) as Map<string, Json>;
        json.set(
            'stateDelta',
            setJson ? new Map([['set', tryJson(setJson) ?? setJson], ...delta]) : delta,
        );
    }
    if (bodyJson) {
        json.set('body', tryJson(bodyJson) ?? bodyJson);
    }
    return json;
}

function Raw({event, close}: {event: Event; close: () => void}) {
    const filter = useSignal('');
    const json = eventJson(event);
    return (
        <section class="raw" aria-label={`Raw JSON of event ${event.sequence}`}>
            <div class="raw-head">
                <input
                    type="search"
                    placeholder="Search names and values"
                    aria-label="Search the JSON"
                    value={filter.value}
                    onInput={input => (filter.value = input.currentTarget.value.toLowerCase())}
                />
                <Copy text={() => writeJson(json, 2)} label="the event as JSON">
                    copy event
                </Copy>
                <button class="link" onClick={close}>
                    close
                </button>
            </div>
            <Tree json={json} filter={filter.value} open={2} />
        </section>
    );
}

/** Stands for events that a rewind hides. */
export function Hidden({run, show}: {run: HiddenRun; show: () => void}) {
    const count = run.last - run.first + 1;
    return (
        <article class="hidden-run" aria-label={`Events ${run.first} to ${run.last}, hidden`}>
            {countText(count, 'event')} hidden by a rewind ({run.first}–{run.last})
            <button class="link" onClick={show}>
                show
            </button>
        </article>
    );
}
