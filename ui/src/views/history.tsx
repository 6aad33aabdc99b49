/** How a key came to its value: who, when, from what to what. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {TEXT, call, isAbort, messageOf} from '../api.js';
import type {KeyChange, Scope} from '../contract.js';
import {tryJson} from '../json.js';
import {href} from '../route.js';
import {Notice, Text, Time} from './common.js';
import {Tree} from './tree.js';

interface Props {
    /** From which the key is seen. */
    scope: Scope;
    name: string;
    close: () => void;
    /** Rises when there may be a new change. */
    version: number;
}

const PAGE_SIZE = 50;

export function History({scope, name, close, version}: Props) {
    const changes = useSignal<KeyChange[]>([]);
    const pageToken = useSignal('');
    const error = useSignal('');
    const isRead = useSignal(false);
    const read = async (token: string, abort?: AbortSignal) => {
        const request = {scope, key: name, pageSize: PAGE_SIZE, pageToken: token, ...TEXT};
        try {
            const page = await call('StateService/ListKeyChanges', request, abort);
            changes.value = [...(token ? changes.value : []), ...(page.changes ?? [])];
            pageToken.value = page.nextPageToken ?? '';
            isRead.value = true;
            error.value = '';
        } catch (failure) {
            error.value = isAbort(failure) ? error.value : messageOf(failure);
        }
    };
    useEffect(() => {
        const abort = new AbortController();
        void read('', abort.signal);
        return () => abort.abort();
    }, [name, version, scope.appName, scope.userId, scope.sessionId]);
    const all = changes.value;
    return (
        <section class="history" aria-label="History of a key">
            <div class="pane-head">
                <h2>
                    <Text text={name || '(empty key)'} />
                </h2>
                <button onClick={close}>Back to the state</button>
            </div>
            {error.value && <Notice>{error.value}</Notice>}
            {isRead.value && all.length === 0 && <p class="dim">No changes are known.</p>}
            <ol>
                {all.map((change, at) => (
                    <Change key={`${change.version}`} {...{change, before: all[at + 1]}} />
                ))}
            </ol>
            {pageToken.value && (
                <button class="link" onClick={() => void read(pageToken.value)}>
                    older changes
                </button>
            )}
        </section>
    );
}

function Change({change, before}: {change: KeyChange; before: KeyChange | undefined}) {
    return (
        <li>
            <p class="change-head">
                <strong>
                    <Text text={change.author || 'at creation'} />
                </strong>{' '}
                <Origin change={change} /> <Time time={change.commitTime} />{' '}
                <span class="dim">version {change.version ?? 0}</span>
            </p>
            {before?.valueJson && <ValueText text={before.valueJson} kind="before" />}
            <ValueText text={change.valueJson} kind="after" />
        </li>
    );
}

function ValueText({text, kind}: {text: string | undefined; kind: string}) {
    const json = text === undefined ? undefined : tryJson(text);
    return (
        <div class={`value ${kind}`}>
            <span class="visually-hidden">{kind === 'before' ? 'from' : 'to'}</span>
            {json === undefined ? <span class="removed">removed</span> : <Tree json={json} />}
        </div>
    );
}

/** The event that made the change, in any session. */
function Origin({change}: {change: KeyChange}) {
    const {appName, userId, sessionId} = change.session ?? {};
    const sequence = Number(change.sequence ?? 0);
    if (!appName || !userId || !sessionId) {
        return null;
    }
    return (
        <a href={href({view: 'session', appName, userId, sessionId, at: sequence})}>
            <Text text={sessionId} limit={40} /> #{sequence}
        </a>
    );
}
