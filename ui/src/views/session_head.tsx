/** The head of a session: what it is, whether it is current, and its tools. */

import {useSignal, type Signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {isAbort, messageOf} from '../api.js';
import type {Session} from '../contract.js';
import {download, type FileForm} from '../download.js';
import {href, routeTo} from '../route.js';
import {countText, timeText} from '../text.js';
import {currentAt, reconnect, watchError, watchState} from '../watch.js';
import {Check, Link, Menu, Notice, Text, Time} from './common.js';
import {Tag} from './parts.js';
import type {Open} from './session.js';

/** Labels of the adapters' own begin with it. */
const INTERNAL_LABEL = 'sessiond-adk/';

type HeadProps = Open & {pane: Signal<'events' | 'state'>; reload: () => void};

export function SessionHead(props: HeadProps) {
  const {address, session, route, set, pane, reload} = props;
  return (
    <header class="session-head">
      <div class="title-line">
        <h1>
          <Text text={session.displayName || address.sessionId} />
        </h1>
        <SessionMenu {...props} />
      </div>
      <Facts {...props} />
      <div class="pane-tools">
        <Live {...props} />
        <FindField text={route.find ?? ''} find={text => set({find: text || undefined})} />
        <Check label="show rewound" value={route.rewound} set={rewound => set({rewound}, true)} />
        <div class="tabs pane-tabs" role="group" aria-label="Pane">
          {(['events', 'state'] as const).map(name => (
            <button
              key={name}
              aria-pressed={pane.value === name}
              onClick={() => (pane.value = name)}>
              {name}
            </button>
          ))}
        </div>
      </div>
      <Currency reload={reload} />
    </header>
  );
}

function Facts({address, session, model}: HeadProps) {
  const {createTime, expireTime, forkedFrom} = session;
  const {appName, userId, sessionId} = forkedFrom?.key ?? {};
  const origin = Number(forkedFrom?.sequence ?? 0);
  const to = {...routeTo('session', appName, userId, sessionId), at: origin};
  return (
    <div class="session-facts">
      <code>
        <Text text={address.sessionId} />
      </code>
      <span>{countText(model.newest.value, 'event')}</span>
      <span>
        created <Time time={createTime} />
      </span>
      {expireTime && (
        <span>
          expires <Time time={expireTime} />
        </span>
      )}
      {sessionId && (
        <span>
          forked from{' '}
          <a href={href(to)}>
            <Text text={sessionId} /> at event {origin}
          </a>
        </span>
      )}
      <Labels session={session} />
    </div>
  );
}

export function Labels({session: {labels = {}}}: {session: Session}) {
  const shown = Object.entries(labels).filter(([name]) => !name.startsWith(INTERNAL_LABEL));
  return (
    <>
      {shown.map(([name, value]) => (
        <Tag key={name} text={`${name}=${value}`} />
      ))}
    </>
  );
}

/** Whether the page follows, and the switches for it. */
function Live({model, list}: HeadProps) {
  const isPaused = model.isPaused.value;
  const waiting = model.newest.value - model.shown.value;
  const state = isPaused ? 'paused' : watchState.value;
  return (
    <div class="live" role="group" aria-label="Live">
      <span class={`live-state ${state.replace(' ', '-')}`} role="status">
        {state}
        {waiting > 0 && `, ${waiting} new`}
      </span>
      <button onClick={() => model.pause(!isPaused)}>{isPaused ? 'Resume' : 'Pause'}</button>
      <button aria-pressed={list.isFollowing.value} onClick={() => list.follow()}>
        Follow
      </button>
    </div>
  );
}

/** Says when what is shown is not current. */
export function Currency({reload}: {reload: () => void}) {
  switch (watchState.value) {
    case 'gone':
      return (
        <Notice kind="warning" retry={reload}>
          This session was deleted, or another one has its id now. This is what was read before.
        </Notice>
      );
    case 'lost':
    case 'refused':
      return (
        <Notice kind="warning" retry={watchState.value === 'lost' ? reconnect : reload}>
          Not current{currentAt.value > 0 && ` since ${timeText(currentAt.value)}`}:{' '}
          {watchError.value}
        </Notice>
      );
    default:
      return null;
  }
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
  return (
    <form role="search" onSubmit={submit}>
      <input
        {...{ref: element, type: 'search', key: text, defaultValue: text}}
        placeholder="Find text, id, #sequence, invocation, trace"
        aria-label="Find in this session"
      />
    </form>
  );
}

/** What can be done with the session as a whole. */
function SessionMenu({address, model, ask}: HeadProps) {
  const state = useSignal('');
  const abort = useSignal<AbortController | undefined>(undefined);
  useEffect(() => () => abort.value?.abort(), []);
  const save = async (form: FileForm) => {
    const stop = new AbortController();
    abort.value = stop;
    state.value = 'Reading…';
    const progress = (events: number) => (state.value = `${countText(events, 'event')} read`);
    await download(address, form, progress, stop.signal).then(
      () => (state.value = ''),
      (error: unknown) => (state.value = isAbort(error) ? '' : messageOf(error)),
    );
    abort.value = undefined;
  };
  const sequence = model.shown.value;
  return (
    <div class="session-actions">
      <span role="status">{state.value}</span>
      {abort.value && <Link run={() => abort.value?.abort()}>Stop</Link>}
      <Menu
        label="Actions of the session"
        items={[
          ['Download as ADK file', () => save('adk')],
          ['Download complete', () => save('complete')],
          ['Fork here…', ask && (() => ask({kind: 'fork', sequence}))],
          ['Delete…', ask && (() => ask({kind: 'delete', sequence}))],
        ]}
      />
    </div>
  );
}
