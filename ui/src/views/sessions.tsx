/** The sessions of an application, page by page. */

import {useSignal, type Signal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import type {Session} from '../contract.js';
import {go, href, savePlace, savedPlace, type Sessions} from '../route.js';
import {listOf, nameOf, type SessionList} from '../session_list.js';
import {agoText, clockText, countText, timeText} from '../text.js';
import {Empty, Notice, Text} from './common.js';
import {List, ListModel, type Anchor} from './list.js';
import {INTERNAL_LABEL} from './session_head.js';

const ROW_HEIGHT = 56;

export function SessionsView({route}: {route: Sessions}) {
    const list = useMemo(() => listOf(route), []);
    const rows = useMemo(() => new ListModel(ROW_HEIGHT), []);
    const [first, last] = rows.range.value;
    const sessions = list.sessions.value;
    const count = sessions.length;
    useEffect(() => void list.read(), []);
    useEffect(() => void restore(list, rows), []);
    useEffect(() => {
        if (count > 0 && last >= count - 20) {
            void list.read();
        }
        list.preview(sessions.slice(first, last + 1));
        const save = setTimeout(() => count > 0 && savePlace(rows.anchor), 300);
        return () => clearTimeout(save);
    }, [first, last, count, list.pageToken.value]);
    return (
        <div class="sessions">
            <Filters {...{route, list, rows}} />
            {list.error.value && (
                <Notice>
                    {list.error.value}{' '}
                    <button class="link" onClick={() => void list.read()}>
                        Retry
                    </button>
                </Notice>
            )}
            {count === 0 && !list.hasMore && <NoSessions route={route} />}
            <div
                class="table"
                role="table"
                aria-label="Sessions"
                aria-rowcount={list.hasMore ? -1 : count}>
                <div role="rowgroup">
                    <div class="row head" role="row">
                        {['Session', 'User', 'Events', 'Last event', 'Last message'].map(name => (
                            <span role="columnheader" key={name}>
                                {name}
                            </span>
                        ))}
                    </div>
                </div>
                <List
                    {...{list: rows, count, role: 'rowgroup', label: 'Sessions'}}
                    row={at => (
                        <SessionRow session={sessions[at] ?? {}} at={at} previews={list.previews} />
                    )}
                />
            </div>
        </div>
    );
}

/** Brings back what was seen when this entry of the history was left. */
async function restore(list: SessionList, rows: ListModel): Promise<void> {
    const place = savedPlace<Anchor>();
    if (place) {
        await list.readTo(place.row + 1);
        rows.show(place.row, place.above);
    }
}

function SessionRow(props: {session: Session; at: number; previews: Signal<Map<string, string>>}) {
    const {session, at, previews} = props;
    const {appName = '', userId = '', sessionId = ''} = session.key ?? {};
    const labels = Object.entries(session.labels ?? {});
    const count = Number(session.lastSequence ?? 0);
    return (
        <div class="row" role="row" aria-rowindex={at + 1}>
            <span role="cell" class="title">
                <a href={href({view: 'session', appName, userId, sessionId})}>
                    <Text text={session.displayName || sessionId} limit={120} />
                </a>
                <span class="sub">
                    {session.displayName && <Text text={sessionId} limit={80} />}
                    {labels
                        .filter(([name]) => !name.startsWith(INTERNAL_LABEL))
                        .map(([name, value]) => (
                            <span class="tag" key={name}>
                                <Text text={`${name}=${value}`} limit={60} />
                            </span>
                        ))}
                </span>
            </span>
            <span role="cell">
                <Text text={userId} limit={80} />
            </span>
            <span role="cell" class="count">
                {count.toLocaleString('en')}
                <span class="unit"> events</span>
            </span>
            <span role="cell" title={timeText(session.lastEventTime)}>
                {agoText(session.lastEventTime, Date.now())}
                {session.expireTime && (
                    <span class="sub">expires {agoText(session.expireTime, Date.now())}</span>
                )}
            </span>
            <span role="cell" class="preview">
                <Text text={previews.value.get(nameOf(session.key)) ?? ''} limit={200} />
            </span>
        </div>
    );
}

function NoSessions({route}: {route: Sessions}) {
    const isFiltered = route.userId !== '' || route.labels.length > 0;
    return isFiltered ? (
        <Empty title="No session passes the filter">
            <p>
                <button class="link" onClick={() => go({...route, userId: '', labels: []})}>
                    Show all sessions
                </button>{' '}
                of the application.
            </p>
        </Empty>
    ) : (
        <Empty title="No sessions yet">
            <p>
                Create one from your agent, or make sample sessions: <code>sessiond demo</code>
            </p>
        </Empty>
    );
}

function Filters({route, list, rows}: {route: Sessions; list: SessionList; rows: ListModel}) {
    const fault = useSignal('');
    const isJumping = useSignal(false);
    const set = (change: Partial<Sessions>) => go({...route, ...change});
    const addLabel = (input: HTMLInputElement) => {
        const label = input.value.trim();
        fault.value = label && !label.includes('=') ? 'A label is written as name=value.' : '';
        if (label && !fault.value) {
            input.value = '';
            set({labels: [...new Set([...route.labels, label])]});
        }
    };
    const jump = async (text: string) => {
        isJumping.value = true;
        const row = text ? await list.rowAt(Date.parse(text)) : 0;
        isJumping.value = false;
        rows.show(Math.max(0, row), 0);
    };
    return (
        <form class="filters" role="search" onSubmit={event => event.preventDefault()}>
            <input
                type="search"
                placeholder="User id"
                aria-label="User id"
                value={route.userId}
                onChange={input => set({userId: input.currentTarget.value})}
            />
            <input
                placeholder="label=value"
                aria-label="Label"
                onChange={input => addLabel(input.currentTarget)}
            />
            {route.labels.map(label => (
                <button
                    class="tag"
                    key={label}
                    aria-label={`Remove the label ${label}`}
                    onClick={() => set({labels: route.labels.filter(other => other !== label)})}>
                    <Text text={label} /> ×
                </button>
            ))}
            <label>
                jump to{' '}
                <input
                    type="datetime-local"
                    aria-label="Jump to a time"
                    onChange={input => void jump(input.currentTarget.value)}
                />
            </label>
            <button
                aria-pressed={route.oldestFirst}
                onClick={() => set({oldestFirst: !route.oldestFirst})}>
                {route.oldestFirst ? 'oldest first' : 'newest first'}
            </button>
            <span class="dim" role="status">
                {fault.value ||
                    (isJumping.value || list.readAt.value === 0
                        ? 'Reading…'
                        : `${countText(list.sessions.value.length, 'session')}${list.hasMore ? ' so far' : ''}, ` +
                          `as of ${clockText(new Date(list.readAt.value).toISOString())}`)}
            </span>
            <button type="button" onClick={() => list.reload()}>
                Reload
            </button>
        </form>
    );
}
