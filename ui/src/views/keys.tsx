/** Keys and values of a state by scope, with what changed. */

import {useSignal} from '@preact/signals';
import {writeJson, type Json} from '../json.js';
import {scopeOf, type Entry, type ScopeName} from '../state.js';
import {countText, plain} from '../text.js';
import {Button, Copy, Link} from './common.js';
import {Key} from './event.js';
import {Tree, matches} from './tree.js';

const MORE = 200;
const MARKS = {added: '+', changed: '~', removed: '−', same: ''};

interface Props {
  entries: Entry[];
  filter: string;
  onlyChanges: boolean;
  scopes: ScopeName[];
  history: (key: string) => void;
  /** Not offered if the caller may not write, and for the past. */
  edit: ((key: string) => void) | undefined;
}

export function Keys({entries, filter, onlyChanges, scopes, ...actions}: Props) {
  const text = filter.toLowerCase();
  const isShown = ({key, value, before, change}: Entry) =>
    (!onlyChanges || change !== 'same') &&
    (key.toLowerCase().includes(text) || matches(value ?? before ?? null, text));
  const scopeViews = scopes.map(scope => {
    const all = entries.filter(entry => scopeOf(entry.key) === scope);
    return (
      <Scope key={scope} {...{scope, ...actions, count: all.length}} shown={all.filter(isShown)} />
    );
  });
  return <>{scopeViews}</>;
}

type KeyActions = Pick<Props, 'history' | 'edit'>;
type ScopeProps = KeyActions & {scope: ScopeName; count: number; shown: Entry[]};

function Scope({scope, count, shown, ...actions}: ScopeProps) {
  const limit = useSignal(MORE);
  const rest = shown.length - limit.value;
  return (
    <section class="scope" aria-label={`State of the ${scope}`}>
      <h3 class={scope}>
        {scope} <span class="dim">{countText(count, 'key')}</span>
      </h3>
      <ul>
        {shown.slice(0, limit.value).map(entry => (
          <EntryView key={entry.key} {...{entry, ...actions}} />
        ))}
      </ul>
      {rest > 0 && <Link label={`${rest} more`} run={() => (limit.value += MORE)} />}
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
