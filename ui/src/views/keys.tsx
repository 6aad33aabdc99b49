/** Keys and values of a state by scope, with what changed. */

import {useSignal} from '@preact/signals';
import {writeJson, type Json} from '../json.js';
import {SCOPES, scopeOf, type Entry, type ScopeName} from '../state.js';
import {countText, plain} from '../text.js';
import {Copy, Text} from './common.js';
import {Tree, matches} from './tree.js';

const MORE = 200;
const MARKS = {added: '+', changed: '~', removed: '−', same: ''};

export interface KeyActions {
    history: (key: string) => void;
    /** Not offered if the caller may not write, and for the past. */
    edit?: ((key: string) => void) | undefined;
}

interface Props {
    entries: Entry[];
    filter: string;
    onlyChanges: boolean;
    scopes?: readonly ScopeName[];
    actions: KeyActions;
}

export function Keys({entries, filter, onlyChanges, scopes = SCOPES, actions}: Props) {
    const text = filter.toLowerCase();
    const isShown = ({key, value, before, change}: Entry) =>
        (!onlyChanges || change !== 'same') &&
        (!text || matches(key, value ?? before ?? null, text));
    const shown = entries.filter(isShown);
    return (
        <>
            {scopes.map(scope => (
                <ScopeView
                    key={scope}
                    {...{scope, actions}}
                    all={entries.filter(entry => scopeOf(entry.key) === scope).length}
                    entries={shown.filter(entry => scopeOf(entry.key) === scope)}
                />
            ))}
        </>
    );
}

interface ScopeProps {
    scope: ScopeName;
    all: number;
    entries: Entry[];
    actions: KeyActions;
}

function ScopeView({scope, all, entries, actions}: ScopeProps) {
    const limit = useSignal(MORE);
    return (
        <section class="scope" aria-label={`State of the ${scope}`}>
            <h3 class={scope}>
                {scope} <span class="dim">{countText(all, 'key')}</span>
            </h3>
            {entries.length === 0 && <p class="dim none">{all ? 'None of these.' : 'No keys.'}</p>}
            <ul>
                {entries.slice(0, limit.value).map(entry => (
                    <EntryView key={entry.key} {...{entry, actions}} />
                ))}
            </ul>
            {entries.length > limit.value && (
                <button class="link" onClick={() => (limit.value += MORE)}>
                    {countText(entries.length - limit.value, 'key')} more
                </button>
            )}
        </section>
    );
}

function EntryView({entry, actions}: {entry: Entry; actions: KeyActions}) {
    const {key, value, before, change} = entry;
    return (
        <li class={`entry ${change}`}>
            <div class="entry-head">
                <span class="mark" title={change === 'same' ? undefined : change}>
                    {MARKS[change]}
                    {change !== 'same' && <span class="visually-hidden">{change}</span>}
                </span>
                <button class={`key ${scopeOf(key)}`} onClick={() => actions.history(key)}>
                    <Text text={key || '(empty key)'} />
                    <span class="visually-hidden"> history</span>
                </button>
                <span class="copies">
                    <Copy text={() => key} label={`the key ${key}`}>
                        key
                    </Copy>
                    {actions.edit && value !== undefined && (
                        <button
                            class="copy"
                            aria-label={`Change ${plain(key)}`}
                            onClick={() => actions.edit?.(key)}>
                            change
                        </button>
                    )}
                </span>
            </div>
            {change !== 'same' && before !== undefined && <Value json={before} kind="before" />}
            {value !== undefined && <Value json={value} kind="after" />}
        </li>
    );
}

function Value({json, kind}: {json: Json; kind: string}) {
    const isShort = writeJson(json).length < 60;
    return (
        <div class={`value ${kind}`}>
            {kind === 'before' && <span class="visually-hidden">before:</span>}
            <Tree json={json} open={isShort ? 2 : 0} />
        </div>
    );
}
