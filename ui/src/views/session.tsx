/** A session: its conversation, its state at any event, and what can be done with it. */

import {useSignal, useSignalEffect, type Signal} from '@preact/signals';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import {attempt} from '../api.js';
import type {Session} from '../contract.js';
import {download, type FileForm} from '../download.js';
import type {Anchor} from '../list.js';
import {href, savePlace, savedPlace, toSession, type Route} from '../route.js';
import {SessionModel} from '../session.js';
import {countText, timeText} from '../text.js';
import {currentAt, reconnect, watchError, watchState} from '../watch.js';
import {Button, Check, Empty, Link, Menu, Notice, shown, tag, timeAgo} from './common.js';
import {Conversation} from './conversation.js';
import {ChangeDialog} from './dialogs.js';
import {FindResults} from './find.js';
import {SessionState} from './state.js';

/** Browsers refuse more than some 100 changes of the address in 30 s. */
const ADDRESS_MS = 400;

/** `reload` opens the session anew. */
export function SessionView({route, reload}: {route: Route; reload: () => void}) {
  const {appName, userId, sessionId, find, rewound} = route;
  const model = useMemo(() => new SessionModel({appName, userId, sessionId}), []);
  const pane = useSignal<'events' | 'state'>('events');
  useEffect(() => {
    void model.open();
    return () => model.close();
  }, []);
  usePlace(route, model);
  const asked = model.asked.value;
  if (!model.session.value) {
    return model.error.value ? (
      <Empty title="The session cannot be shown">
        <Notice text={model.error.value} retry={reload} />
        It may have been deleted or have expired. <a href="#/">Look at the applications</a>.
      </Empty>
    ) : (
      <p class="page dim">Reading…</p>
    );
  }
  return (
    <div class={`session-view show-${pane.value}`}>
      <SessionHead {...{model, route, pane, reload}} />
      <div class="panes">
        <div class="events-pane">
          {find && <FindResults {...{model, text: find, rewound}} />}
          <Conversation model={model} />
        </div>
        <div class="state-pane">
          <SessionState {...{model, route}} />
        </div>
      </div>
      <Timeline model={model} />
      {asked && <ChangeDialog {...{model, change: asked}} />}
    </div>
  );
}

/** Keeps the selected event in the address, and the place of the list for Back. */
function usePlace(route: Route, model: SessionModel) {
  const {list, log, at} = model;
  const isOpen = model.session.value !== undefined;
  useEffect(() => {
    log.showsRewound = route.rewound;
    log.clear();
  }, [route.rewound]);
  useEffect(() => {
    const place = savedPlace<Anchor>();
    if (isOpen && route.event) {
      void model.goToEvent(route.event);
    } else if (isOpen && place && at.value === route.at) {
      list.show(place.row, place.above);
    } else if (isOpen) {
      model.select(route.at);
    }
  }, [isOpen, route.at, route.event]);
  useEffect(() => {
    const isLate = at.value !== route.at && !route.event;
    const timer = setTimeout(() => isLate && model.go({}, true), ADDRESS_MS);
    return () => clearTimeout(timer);
  });
  useSignalEffect(() => {
    void list.range.value;
    const isAtEnd = list.isFollowing.value;
    const timer = setTimeout(() => savePlace(isAtEnd ? undefined : list.anchor), ADDRESS_MS);
    return () => clearTimeout(timer);
  });
}

/** The slider over the events. */
function Timeline({model}: {model: SessionModel}) {
  const [at, last] = [model.at.value, model.shown.value];
  const value = at ?? last;
  const step = (by: number) => model.select(Math.max(0, Math.min(last, value + by)));
  const text = value === 0 ? 'as created' : `event ${value} of ${last}`;
  const names = {'aria-label': 'State as of event', 'aria-valuetext': text};
  const range = {type: 'range', min: 0, max: last, value, ...names} as const;
  return (
    <div class="timeline" role="group" aria-label="Time">
      <Button label="‹" title="One event back" run={() => step(-1)} />
      <input {...range} onInput={input => model.select(Number(input.currentTarget.value))} />
      <Button label="›" title="One event on" run={() => step(1)} />
      <span class="timeline-text">
        {at === undefined ? countText(last, 'event') : text}{' '}
        <span class="dim">{timeText(model.log.get(at ?? 0)?.eventTime)}</span>
      </span>
      <Button label="Now" pressed={at === undefined} run={() => model.select(undefined)} />
    </div>
  );
}

/** The prefix of labels that ADK adapters set for themselves. */
const INTERNAL_LABEL = 'sessiond-adk/';
const PANES = ['events', 'state'] as const;

type Pane = Signal<'events' | 'state'>;
type ModelProps = {model: SessionModel};
type HeadProps = ModelProps & {route: Route; pane: Pane; reload: () => void};

function SessionHead({model, route, pane, reload}: HeadProps) {
  const showRewound = (rewound: boolean) => model.go({rewound}, true);
  return (
    <header class="session-head">
      <div class="title-line">
        <h1>{shown(model.session.value?.displayName || route.sessionId)}</h1>
        <SessionMenu model={model} />
      </div>
      <Facts model={model} />
      <div class="pane-tools">
        <Live model={model} />
        <FindField text={route.find ?? ''} find={text => model.go({find: text || undefined})} />
        <Check label="show rewound" value={route.rewound} set={showRewound} />
        <div class="tabs pane-tabs" role="group" aria-label="Pane">
          {PANES.map(label => (
            <Button {...{label, pressed: pane.value === label, run: () => (pane.value = label)}} />
          ))}
        </div>
      </div>
      <Currency reload={reload} />
    </header>
  );
}

function Facts({model}: ModelProps) {
  const session = model.session.value ?? {};
  const {createTime, expireTime, forkedFrom} = session;
  const origin = toSession(forkedFrom?.key, Number(forkedFrom?.sequence ?? 0));
  const link = <a href={href(origin)}>{[shown(origin.sessionId), ` at event ${origin.at}`]}</a>;
  return (
    <div class="session-facts">
      <code>{shown(model.address.sessionId)}</code>
      <span>{countText(model.newest.value, 'event')}</span>
      <span>created {timeAgo(createTime)}</span>
      {expireTime && <span>expires {timeAgo(expireTime)}</span>}
      {origin.sessionId && <span>forked from {link}</span>}
      {labelsOf(session)}
    </div>
  );
}

export function labelsOf({labels = {}}: Session) {
  const all = Object.entries(labels).filter(([name]) => !name.startsWith(INTERNAL_LABEL));
  return all.map(([name, value]) => tag(`${name}=${value}`));
}

/** Whether the page follows, and the switches for it. */
function Live({model}: ModelProps) {
  const {list} = model;
  const isPaused = model.pausedAt.value !== undefined;
  const waiting = model.newest.value - model.shown.value;
  const state = isPaused ? 'paused' : watchState.value;
  return (
    <div class="live" role="group" aria-label="Live">
      <span {...{class: `live-state ${state}`, role: 'status'}}>
        {state + (waiting > 0 ? `, ${waiting} new` : '')}
      </span>
      <Button label={isPaused ? 'Resume' : 'Pause'} run={() => model.pause(!isPaused)} />
      <Button label="Follow" pressed={list.isFollowing.value} run={() => list.follow()} />
    </div>
  );
}

/** Says when what is shown is not current. */
export function Currency({reload}: {reload: () => void}) {
  const state = watchState.value;
  const gone =
    'This session was deleted, or another one has its id now. You see what was read before.';
  const since = currentAt.value > 0 ? ` since ${timeText(currentAt.value)}` : '';
  const isLost = state === 'lost' || state === 'refused';
  const text = state === 'gone' ? gone : isLost && `Not current${since}: ${watchError.value}`;
  return <Notice kind="warning" text={text} retry={state === 'lost' ? reconnect : reload} />;
}

/** `/` focuses it, Enter searches. */
function FindField({text, find}: {text: string; find: (text: string) => void}) {
  const element = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key === '/' && !(event.target as HTMLElement).closest('input, textarea, dialog')) {
        event.preventDefault();
        element.current?.focus();
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  const submit = (event: Event) => {
    event.preventDefault();
    find(element.current?.value.trim() ?? '');
  };
  const field = {ref: element, type: 'search', key: text, defaultValue: text} as const;
  const hint = 'Find text, id, #sequence, invocation, trace';
  return (
    <form role="search" onSubmit={submit}>
      <input {...field} placeholder={hint} aria-label="Find in this session" />
    </form>
  );
}

/** Actions of the session as a whole. */
function SessionMenu({model}: ModelProps) {
  const state = useSignal('');
  const error = useSignal('');
  const reading = useSignal<AbortController | undefined>(undefined);
  useEffect(() => () => reading.value?.abort(), []);
  const save = async (form: FileForm) => {
    reading.value?.abort();
    const abort = new AbortController();
    reading.value = abort;
    const progress = (events: number) => (state.value = `${countText(events, 'event')} read`);
    await attempt(error, () => download(model.address, form, progress, abort.signal));
    reading.value = reading.value === abort ? undefined : reading.value;
  };
  const items: [string, unknown][] = [
    ['Download as ADK file', () => save('adk')],
    ['Download complete', () => save('complete')],
    ['Fork here…', model.ask('fork')],
    ['Delete…', model.ask('delete')],
  ];
  return (
    <div class="session-actions">
      <span role="status">{reading.value ? state.value : error.value}</span>
      {reading.value && <Link label="Stop" run={() => reading.value?.abort()} />}
      <Menu label="Actions of the session" items={items} />
    </div>
  );
}
