/** A session: its conversation, its state at any event, and what can be done with it. */

import {useComputed, useSignal, useSignalEffect, type Signal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import {call, isReadOnly, messageOf} from '../api.js';
import type {Address, Session} from '../contract.js';
import {mayWrite} from '../rights.js';
import {go, savePlace, savedPlace, sessionsOf, type SessionRoute} from '../route.js';
import {SessionModel} from '../session.js';
import {watchState} from '../watch.js';
import {Empty, Notice} from './common.js';
import {Conversation} from './conversation.js';
import {DeleteDialog, EditDialog, ForkDialog, RewindDialog} from './dialogs.js';
import type {Actions} from './event.js';
import {FindResults} from './find.js';
import {History} from './history.js';
import {ListModel, type Anchor} from './list.js';
import {StatePanel} from './panel.js';
import {SessionHead} from './session_head.js';
import {Timeline} from './timeline.js';

/** A usual event. Rows are measured once they are seen. */
const ROW_HEIGHT = 96;
/** Browsers refuse more than some 100 changes of the address in 30 s. */
const ADDRESS_MS = 400;

/** What a dialog is about. */
export type Task =
    | {kind: 'fork' | 'rewind'; sequence: number}
    | {kind: 'delete'}
    | {kind: 'edit'; key: string; seen: Session};

interface Props {
    route: SessionRoute;
    /** Opens the session anew. */
    reload: () => void;
}

export function SessionView({route, reload}: Props) {
    const {appName, userId, sessionId} = route;
    const address: Address = useMemo(() => ({appName, userId, sessionId}), []);
    const model = useMemo(() => new SessionModel(address), []);
    const list = useMemo(() => new ListModel(ROW_HEIGHT, true), []);
    const task = useSignal<Task | undefined>(undefined);
    const canWrite = useSignal(false);
    const pane = useSignal<'events' | 'state'>('events');
    const at = useSelection(route, model, list);
    useEffect(() => {
        void model.open();
        void mayWrite(address).then(may => (canWrite.value = may));
        return () => model.close();
    }, []);
    if (model.error.value) {
        return <Unreadable error={model.error.value} reload={reload} />;
    }
    const session = model.session.value;
    if (!session) {
        return <p class="loading-page">Loading…</p>;
    }
    const may = canWrite.value && !isReadOnly.value && watchState.value !== 'gone';
    const ask = may ? (next: Task) => (task.value = next) : undefined;
    const set = (change: Partial<SessionRoute>, replace = true) =>
        go({...route, at: at.value, ...change}, replace);
    const open = {address, model, list, route, session, at, ask, set};
    return (
        <div class={`session show-${pane.value}`}>
            <SessionHead {...open} {...{pane, reload}} />
            <div class="panes">
                <EventsPane {...open} />
                <StatePane {...open} />
            </div>
            <Timeline
                at={at.value}
                last={model.shown.value}
                time={model.log.get(at.value ?? 0)?.eventTime}
                select={to => {
                    at.value = to;
                    show(list, to);
                }}
            />
            <Dialogs {...open} task={task} />
        </div>
    );
}

/** What the parts of the view share. */
export interface Open {
    address: Address;
    model: SessionModel;
    list: ListModel;
    route: SessionRoute;
    session: Session;
    at: Signal<number | undefined>;
    /** Begins a change, if the caller may make one. */
    ask: ((task: Task) => void) | undefined;
    set: (change: Partial<SessionRoute>, replace?: boolean) => void;
}

/** The event that is selected. The address has it as well, and the place of the list is kept for Back. */
function useSelection(route: SessionRoute, model: SessionModel, list: ListModel) {
    const at = useSignal(route.at);
    const isOpen = useComputed(() => model.session.value !== undefined);
    useEffect(() => {
        model.log.showsRewound = route.rewound === true;
        model.log.clear();
    }, [route.rewound]);
    useEffect(() => {
        if (!isOpen.value) {
            return;
        }
        const place = savedPlace<Anchor>();
        if (route.event) {
            void sequenceOf(model.address, route.event).then(sequence => {
                go({...route, at: sequence, event: undefined}, true);
            });
        } else if (place && at.value === route.at) {
            list.show(place.row, place.above);
        } else if (route.at !== at.value || route.at !== undefined) {
            at.value = route.at;
            show(list, route.at);
        } else {
            list.follow();
        }
    }, [isOpen.value, route.at, route.event]);
    useSignalEffect(() => {
        const selected = at.value;
        const timer = setTimeout(() => {
            if (selected !== route.at && !route.event) {
                go({...route, at: selected}, true);
            }
        }, ADDRESS_MS);
        return () => clearTimeout(timer);
    });
    useSignalEffect(() => {
        void list.range.value;
        const timer = setTimeout(
            () => savePlace(list.isFollowing.value ? undefined : list.anchor),
            ADDRESS_MS,
        );
        return () => clearTimeout(timer);
    });
    return at;
}

async function sequenceOf(address: Address, eventId: string): Promise<number | undefined> {
    const request = {key: address, refs: [{eventId}]};
    const found = await call('EventService/BatchGetEvents', request).catch(() => undefined);
    return found?.events?.[0] && Number(found.events[0].sequence);
}

/** Brings an event into view, with the one before it. */
function show(list: ListModel, at: number | undefined): void {
    if (at === undefined) {
        list.follow();
    } else {
        list.show(Math.max(0, at - 1), -40);
    }
}

function EventsPane({model, list, route, at, ask, set}: Open) {
    const select = (sequence: number) => {
        const [first, last] = list.range.value;
        at.value = sequence;
        if (sequence - 1 < first || sequence - 1 > last) {
            show(list, sequence);
        }
    };
    const actions: Actions = {
        ...{route, select},
        history: key => set({key}, false),
        find: text => set({find: text}, false),
        ...(ask && {
            fork: sequence => ask({kind: 'fork', sequence}),
            rewind: sequence => ask({kind: 'rewind', sequence}),
        }),
    };
    const jump = (sequence: number) => {
        at.value = sequence;
        show(list, sequence);
    };
    return (
        <div class="events-pane">
            {route.find && (
                <FindResults
                    {...{model, text: route.find, rewound: route.rewound === true, select: jump}}
                    close={() => set({find: undefined})}
                />
            )}
            <Conversation
                {...{model, list, actions, at: at.value}}
                showRewound={() => set({rewound: true})}
            />
        </div>
    );
}

function StatePane({address, model, route, at, ask, set}: Open) {
    const last = model.shown.value;
    const base = Math.min(route.base ?? Math.max(0, (at.value ?? last) - 1), last);
    const history = (key: string) => set({key}, false);
    return (
        <div class="state-pane">
            {route.key === undefined ? (
                <StatePanel
                    {...{address, at: at.value, base, last, version: model.stateVersion.value}}
                    setBase={to => set({base: to})}
                    history={history}
                    edit={ask && ((key, seen) => ask({kind: 'edit', key, seen}))}
                />
            ) : (
                <History
                    {...{scope: address, name: route.key, version: model.stateVersion.value}}
                    close={() => set({key: undefined})}
                />
            )}
        </div>
    );
}

function Dialogs({address, model, session, task, set}: Open & {task: Signal<Task | undefined>}) {
    const close = () => (task.value = undefined);
    const its = {address, session, close};
    switch (task.value?.kind) {
        case 'fork': {
            const done = (fork: Address) => go({view: 'session', ...fork});
            return <ForkDialog {...{...its, sequence: task.value.sequence, done}} />;
        }
        case 'rewind': {
            const last = model.newest.value;
            return <RewindDialog {...{...its, sequence: task.value.sequence, last}} />;
        }
        case 'delete': {
            const done = () => go(sessionsOf(address.appName), true);
            return <DeleteDialog {...{...its, done}} />;
        }
        case 'edit': {
            const done = () => {
                close();
                set({});
                model.stateVersion.value += 1;
            };
            const {key, seen} = task.value;
            return <EditDialog {...{scope: address, name: key, seen, close, done}} />;
        }
        case undefined:
            return null;
    }
}

function Unreadable({error, reload}: {error: string; reload: () => void}) {
    return (
        <Empty title="The session cannot be shown">
            <Notice>{messageOf(error)}</Notice>
            <p>
                It may have been deleted or have expired. <a href="#/">Look at the applications</a>,
                or{' '}
                <button class="link" onClick={reload}>
                    try again
                </button>
                .
            </p>
        </Empty>
    );
}
