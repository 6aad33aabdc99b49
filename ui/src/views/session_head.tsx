/** The head of a session: what it is, whether it is current, and its tools. */

import {useSignal, type Signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {isAbort, messageOf} from '../api.js';
import type {Session} from '../contract.js';
import {download, type FileForm} from '../download.js';
import {href, routeTo, type Route} from '../route.js';
import type {SessionModel} from '../session.js';
import {countText, timeText} from '../text.js';
import {currentAt, reconnect, watchError, watchState} from '../watch.js';
import {Button, Check, Link, Menu, Notice, shown, tag, timeAgo} from './common.js';

/** Labels of the adapters' own begin with it. */
const INTERNAL_LABEL = 'sessiond-adk/';
const PANES = ['events', 'state'] as const;

type Pane = Signal<'events' | 'state'>;
type ModelProps = {model: SessionModel};
type HeadProps = ModelProps & {route: Route; pane: Pane; reload: () => void};

export function SessionHead({model, route, pane, reload}: HeadProps) {
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
        <Check
          label="show rewound"
          value={route.rewound}
          set={on => model.go({rewound: on}, true)}
        />
        <div class="tabs pane-tabs" role="group" aria-label="Pane">
          {PANES.map(label => {
            const its = {label, pressed: pane.value === label, run: () => (pane.value = label)};
            return <Button key={label} {...its} />;
          })}
        </div>
      </div>
      <Currency reload={reload} />
    </header>
  );
}

function Facts({model}: ModelProps) {
  const session = model.session.value ?? {};
  const {createTime, expireTime, forkedFrom} = session;
  const {appName, userId, sessionId} = forkedFrom?.key ?? {};
  const origin = Number(forkedFrom?.sequence ?? 0);
  const to = {...routeTo('session', appName, userId, sessionId), at: origin};
  const link = <a href={href(to)}>{[shown(sessionId), ` at event ${origin}`]}</a>;
  return (
    <div class="session-facts">
      <code>{shown(model.address.sessionId)}</code>
      <span>{countText(model.newest.value, 'event')}</span>
      <span>created {timeAgo(createTime)}</span>
      {expireTime && <span>expires {timeAgo(expireTime)}</span>}
      {sessionId && <span>forked from {link}</span>}
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
  const isPaused = model.isPaused.value;
  const waiting = model.newest.value - model.shown.value;
  const state = isPaused ? 'paused' : watchState.value;
  const text = state + (waiting > 0 ? `, ${waiting} new` : '');
  return (
    <div class="live" role="group" aria-label="Live">
      <span {...{class: `live-state ${state}`, role: 'status'}}>{text}</span>
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
  const abort = useSignal<AbortController | undefined>(undefined);
  useEffect(() => () => abort.value?.abort(), []);
  const save = async (form: FileForm) => {
    const stop = new AbortController();
    abort.value = stop;
    const progress = (events: number) => (state.value = `${countText(events, 'event')} read`);
    await download(model.address, form, progress, stop.signal).then(
      () => (state.value = ''),
      (error: unknown) => (state.value = isAbort(error) ? '' : messageOf(error)),
    );
    abort.value = undefined;
  };
  const sequence = model.shown.value;
  const items: [string, unknown][] = [
    ['Download as ADK file', () => save('adk')],
    ['Download complete', () => save('complete')],
    ['Fork here…', model.mayChange && (() => (model.task.value = {kind: 'fork', sequence}))],
    ['Delete…', model.mayChange && (() => (model.task.value = {kind: 'delete', sequence}))],
  ];
  return (
    <div class="session-actions">
      <span role="status">{state.value}</span>
      {abort.value && <Link label="Stop" run={() => abort.value?.abort()} />}
      <Menu label="Actions of the session" items={items} />
    </div>
  );
}
