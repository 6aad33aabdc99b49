/** State by scope: of a session as of an event, and of a user or an application as it is now. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useEffect} from 'preact/hooks';
import {TEXT, isReadOnly, mayWrite, pages} from '../api.js';
import type {KeyChange, Scope, Session} from '../contract.js';
import {parseJson, tryJson, writeJson, type Json} from '../json.js';
import {go, href, toSession, type Route} from '../route.js';
import {sessionAt, stateNow, type SessionModel} from '../session.js';
import {compare, readState, scopeOf, type Entry, type ScopeName} from '../state.js';
import {countText, plain} from '../text.js';
import {follow} from '../watch.js';
import {
  Button,
  Check,
  Copy,
  Filter,
  Notice,
  checked,
  shown,
  timeAgo,
  usePages,
  useRead,
  useSome,
} from './common.js';
import {EditDialog} from './dialogs.js';
import {Currency} from './session.js';
import {Tree, matches} from './tree.js';

/** The slider has to rest this long before the state is read. */
const REST_MS = 150;

interface StateProps {
  scope: Scope;
  scopes: ScopeName[];
  /** The key whose history is shown instead. */
  name: string | undefined;
  show: (key: string | undefined) => void;
  /** Rises when there may be a change. */
  version: number;
  read: (abort: AbortSignal) => Promise<{before: Session; after: Session}>;
  /** When to read anew. */
  changes: unknown[];
  mayEdit: boolean | undefined;
  edited: () => void;
  head?: ComponentChildren;
}

function StateView(props: StateProps) {
  const {scope, scopes, name, show, version, mayEdit, edited, head} = props;
  const filter = useSignal('');
  const onlyChanges = useSignal(false);
  /** The key that is edited, and the state that was seen when the dialog opened. */
  const edits = useSignal<{name: string; seen: Session} | undefined>(undefined);
  const {value, message, again} = useRead(props.read, props.changes, REST_MS);
  if (name !== undefined) {
    return <History {...{scope, name, version}} close={() => show(undefined)} />;
  }
  const {before, after: seen} = value ?? {};
  const edit = mayEdit && seen ? (key: string) => (edits.value = {name: key, seen}) : undefined;
  const entries = compare(readState(before?.stateJson), readState(seen?.stateJson));
  const damaged = seen?.damagedKeys?.map(key => plain(key)).join(', ');
  const shown = {entries, filter: filter.value, onlyChanges: onlyChanges.value};
  return (
    <section aria-label="State">
      {head}
      <div class="pane-tools">
        <Filter label="Filter keys and values" set={text => (filter.value = text)} />
        <Check label="only changes" {...checked(onlyChanges)} />
        {edit && <Button label="Set a key…" run={() => edit('')} />}
      </div>
      <Notice text={message} retry={again} />
      <Notice
        kind="warning"
        text={seen?.stateOmitted && 'Not all of this state fits into an answer.'}
      />
      <Notice kind="warning" text={damaged && `Damaged keys are left out: ${damaged}`} />
      {scopes.map(scope => (
        <Keys key={scope} {...{scope, ...shown, history: show, edit}} />
      ))}
      {edits.value && (
        <EditDialog
          {...{scope, ...edits.value, done: edited}}
          close={() => (edits.value = undefined)}
        />
      )}
    </section>
  );
}

/** The state of a session as of the selected event, and what differs from another one. */
export function SessionState({model, route}: {model: SessionModel; route: Route}) {
  const {address: scope, changes} = model;
  const [at, last, version] = [model.at.value, model.shown.value, model.stateVersion.value];
  /** By default the event before. */
  const base = Math.min(route.base ?? Math.max(0, (at ?? last) - 1), last);
  const read = async (abort: AbortSignal) => {
    const after = await (at === undefined ? stateNow(scope, abort) : sessionAt(scope, at, abort));
    const before = at === base ? after : await sessionAt(scope, base, abort);
    return {after, before: before.stateOmitted ? after : before};
  };
  const setBase = (text: string) => model.go({base: Number(text)}, true);
  const number = {type: 'number', min: 0, max: last, value: base} as const;
  const head = (
    <div class="pane-head">
      <h2>State {at === undefined ? 'now' : at === 0 ? 'as created' : `as of event ${at}`}</h2>
      <label>
        compared with event{' '}
        <input {...number} onChange={input => setBase(input.currentTarget.value)} />
      </label>
    </div>
  );
  return (
    <StateView
      {...{scope, scopes: ['session', 'user', 'application'], head, version, read}}
      {...{name: route.key, show: key => model.go({key})}}
      changes={[at, base, at === undefined ? version : 0]}
      mayEdit={at === undefined && model.mayChange}
      edited={() => (changes.value += 1)}
    />
  );
}

/** The state of an application or of a user. */
export function SharedState({route}: {route: Route}) {
  const {appName, userId, key: name} = route;
  const scope = {appName, userId};
  const version = useSignal(0);
  const change = () => void (version.value += 1);
  const read = async (abort: AbortSignal) => {
    const after = await stateNow(scope, abort);
    return {before: after, after};
  };
  // No call tells whether the caller may change an application's state.
  const may = useRead(async () => !userId || mayWrite({...scope, sessionId: '-'}), []).value;
  useEffect(() => follow(scope, it => (it.stateChange || it.caughtUp) && change()), []);
  return (
    <div class="page">
      <Currency reload={change} />
      <StateView
        {...{scope, scopes: userId ? ['user', 'application'] : ['application'], read}}
        {...{name, show: key => go({...route, key}), version: version.value}}
        changes={[version.value]}
        mayEdit={may && !isReadOnly.value}
        edited={change}
      />
    </div>
  );
}

const MORE = 200;
const MARKS = {added: '+', changed: '~', removed: '−', same: ''};

interface KeyActions {
  history: (key: string) => void;
  /** Nothing if the caller may not write, or if the state is of the past. */
  edit: ((key: string) => void) | undefined;
}

interface KeysProps extends KeyActions {
  scope: ScopeName;
  entries: Entry[];
  filter: string;
  onlyChanges: boolean;
}

/** The keys of one scope. */
export function Keys({scope, entries, filter, onlyChanges, ...actions}: KeysProps) {
  const text = filter.toLowerCase();
  const all = entries.filter(entry => scopeOf(entry.key) === scope);
  const [some, more] = useSome(
    all.filter(
      ({key, value, before, change}) =>
        (!onlyChanges || change !== 'same') &&
        (key.toLowerCase().includes(text) || matches(value ?? before ?? null, text)),
    ),
    MORE,
  );
  return (
    <section class="scope" aria-label={`State of the ${scope}`}>
      <h3 class={scope}>
        {scope} <span class="dim">{countText(all.length, 'key')}</span>
      </h3>
      <ul>
        {some.map(entry => (
          <EntryView key={entry.key} {...{entry, ...actions}} />
        ))}
      </ul>
      {more}
    </section>
  );
}

function EntryView({entry, history, edit}: KeyActions & {entry: Entry}) {
  const {key, value, before, change} = entry;
  const changeIt = edit && {run: () => edit(key), title: `Change ${plain(key)}`};
  return (
    <li class={`entry ${change}`}>
      <span class="mark" title={change}>
        {MARKS[change]}
        <span class="visually-hidden">{change}</span>
      </span>
      <Key name={key} history={history} />
      <span class="copies">
        <Copy name="key" text={() => key} label={`the key ${key}`} />
        {changeIt && value !== undefined && <Button class="copy" label="change" {...changeIt} />}
      </span>
      {change !== 'same' && before !== undefined && <Value json={before} kind="before" />}
      {value !== undefined && <Value json={value} kind="after" />}
    </li>
  );
}

/** A key of the state, and the way to its history. */
export function Key({name, history}: {name: string; history: (key: string) => void}) {
  const hint = <span class="visually-hidden"> history</span>;
  const label = [shown(name || '(empty key)'), hint];
  return <Button class={`key ${scopeOf(name)}`} label={label} run={() => history(name)} />;
}

/** A value, or one that was replaced; nothing: the key was removed. */
export function Value({json, kind}: {json: Json | undefined; kind: 'before' | 'after'}) {
  const open = json !== undefined && writeJson(json).length < 60 ? 2 : 0;
  const removed = <span class="removed">removed</span>;
  return (
    <div class={`value ${kind}`}>
      <span class="visually-hidden">{kind === 'before' ? 'from' : 'to'} </span>
      {json === undefined ? removed : <Tree json={json} open={open} />}
    </div>
  );
}

const PAGE_SIZE = 50;

interface HistoryProps {
  /** The session, user or application that is shown. */
  scope: Scope;
  name: string;
  /** Rises when there may be a new change. */
  version: number;
  close: () => void;
}

export function History({scope, name, version, close}: HistoryProps) {
  const request = {scope, key: name, pageSize: PAGE_SIZE, ...TEXT};
  const list = (abort: AbortSignal) => pages('StateService/ListKeyChanges', request, abort);
  const {value, message, again, more} = usePages(list, [name, version]);
  const changes = value?.flatMap(page => page.changes ?? []);
  return (
    <section class="history" aria-label="History of a key">
      <div class="pane-head">
        <h2>{shown(name || '(empty key)')}</h2>
        <Button label="Back to the state" run={close} />
      </div>
      <Notice text={message} retry={again} />
      {changes?.length === 0 && <p class="dim">No changes are known.</p>}
      <ol>
        {changes?.map((change, at) => (
          <Change key={change.version} {...{change, before: changes[at + 1]}} />
        ))}
      </ol>
      {more}
    </section>
  );
}

function Change({change, before}: {change: KeyChange; before: KeyChange | undefined}) {
  const {author, commitTime, version = '0', valueJson, session, sequence} = change;
  const to = toSession(session, Number(sequence ?? 0));
  return (
    <li>
      <strong>{shown(author || 'at creation')}</strong>{' '}
      {session && <a href={href(to)}>{[shown(to.sessionId, 40), ` #${to.at}`]}</a>}{' '}
      {timeAgo(commitTime)} <span class="dim">version {version}</span>
      {before?.valueJson && <Value json={parseJson(before.valueJson)} kind="before" />}
      <Value json={tryJson(valueJson)} kind="after" />
    </li>
  );
}
