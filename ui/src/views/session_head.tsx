/** The head of a session: what it is, whether it is current, and its tools. */

import {useSignal, type Signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {isAbort, messageOf} from '../api.js';
import type {Session} from '../contract.js';
import {download, type FileForm} from '../download.js';
import {href} from '../route.js';
import {countText, timeText} from '../text.js';
import {currentAt, reconnect, watchError, watchState} from '../watch.js';
import {Menu, Notice, Text, Time} from './common.js';
import type {Open} from './session.js';

/** Labels of the adapters' own begin with it. */
export const INTERNAL_LABEL = 'sessiond-adk/';

type HeadProps = Open & {pane: Signal<'events' | 'state'>; reload: () => void};

export function SessionHead(props: HeadProps) {
    const {address, model, session, route, set, ask, pane, reload} = props;
    return (
        <header class="session-head">
            <div class="title-line">
                <h1>
                    <Text text={session.displayName || address.sessionId} />
                </h1>
                <SaveMenu {...{address, ask, last: model.shown.value}} />
            </div>
            <Facts {...{address, session}} count={model.newest.value} />
            <div class="tools">
                <Live {...props} />
                <FindField
                    text={route.find ?? ''}
                    find={text => set({find: text || undefined}, !text)}
                />
                <label>
                    <input
                        type="checkbox"
                        checked={route.rewound === true}
                        onChange={input => set({rewound: input.currentTarget.checked})}
                    />{' '}
                    show rewound
                </label>
                <div class="tabs" role="group" aria-label="Pane">
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
            <Currency {...{reload}} />
        </header>
    );
}

function Facts({
    address,
    session,
    count,
}: {
    address: Open['address'];
    session: Session;
    count: number;
}) {
    const labels = Object.entries(session.labels ?? {});
    const {key, sequence} = session.forkedFrom ?? {};
    const {appName, userId, sessionId} = key ?? {};
    return (
        <div class="session-facts">
            <span class="mono">
                <Text text={address.sessionId} />
            </span>
            <span>{countText(count, 'event')}</span>
            <span>
                created <Time time={session.createTime} />
            </span>
            {session.expireTime && (
                <span>
                    expires <Time time={session.expireTime} />
                </span>
            )}
            {appName && userId && sessionId && (
                <span>
                    forked from{' '}
                    <a
                        href={href({
                            view: 'session',
                            appName,
                            userId,
                            sessionId,
                            at: Number(sequence ?? 0),
                        })}>
                        <Text text={sessionId} /> at event {sequence ?? 0}
                    </a>
                </span>
            )}
            {labels
                .filter(([name]) => !name.startsWith(INTERNAL_LABEL))
                .map(([name, value]) => (
                    <span class="tag" key={name}>
                        <Text text={`${name}=${value}`} />
                    </span>
                ))}
        </div>
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
function Currency({reload}: {reload: () => void}) {
    const state = watchState.value;
    if (state === 'gone') {
        return (
            <Notice kind="warning">
                This session was deleted, or another one has its id now. This is what was read
                before.{' '}
                <button class="link" onClick={reload}>
                    Read it again
                </button>
            </Notice>
        );
    }
    if (state === 'lost' || state === 'refused') {
        const since = currentAt.value && timeText(new Date(currentAt.value).toISOString());
        return (
            <Notice kind="warning">
                Not current{since && ` since ${since}`}: {watchError.value}{' '}
                {state === 'lost' ? 'Trying again.' : ''}{' '}
                <button class="link" onClick={state === 'lost' ? reconnect : reload}>
                    Retry now
                </button>
            </Notice>
        );
    }
    return null;
}

/** `/` focuses it, Enter searches. */
function FindField({text, find}: {text: string; find: (text: string) => void}) {
    const element = useRef<HTMLInputElement>(null);
    useEffect(() => {
        const press = (event: KeyboardEvent) => {
            if (
                event.key === '/' &&
                !(event.target as HTMLElement).closest('input, textarea, dialog')
            ) {
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
                ref={element}
                type="search"
                defaultValue={text}
                key={text}
                placeholder="Find text, id, #sequence, invocation, trace"
                aria-label="Find in this session"
            />
        </form>
    );
}

function SaveMenu({
    address,
    ask,
    last,
}: {
    address: Open['address'];
    ask: Open['ask'];
    last: number;
}) {
    const state = useSignal('');
    const abort = useSignal<AbortController | undefined>(undefined);
    const save = async (form: FileForm) => {
        abort.value = new AbortController();
        const progress = (events: number) => (state.value = `${countText(events, 'event')} read`);
        state.value = 'Reading…';
        await download(address, form, progress, abort.value.signal).then(
            () => (state.value = ''),
            (error: unknown) => (state.value = isAbort(error) ? '' : messageOf(error)),
        );
        abort.value = undefined;
    };
    useEffect(() => () => abort.value?.abort(), []);
    return (
        <div class="session-actions">
            {state.value && (
                <span role="status">
                    {state.value}{' '}
                    {abort.value && (
                        <button class="link" onClick={() => abort.value?.abort()}>
                            Stop
                        </button>
                    )}
                </span>
            )}
            <Menu label="Actions of the session">
                <button onClick={() => void save('adk')}>Download as ADK file</button>
                <button onClick={() => void save('complete')}>Download complete</button>
                {ask && (
                    <button onClick={() => ask({kind: 'fork', sequence: last})}>Fork here…</button>
                )}
                {ask && <button onClick={() => ask({kind: 'delete'})}>Delete…</button>}
            </Menu>
        </div>
    );
}
