/** A session: its conversation, its state at any event, and what can be done with it. */

import {useSignal, useSignalEffect, type Signal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import {call, isReadOnly} from '../api.js';
import type {Address, Session} from '../contract.js';
import {mayWrite} from '../rights.js';
import {go, routeTo, savePlace, savedPlace, type Route} from '../route.js';
import {SessionModel} from '../session.js';
import {watchState} from '../watch.js';
import {Empty, Notice} from './common.js';
import {Conversation} from './conversation.js';
import {DeleteDialog, EditDialog, ForkDialog, RewindDialog} from './dialogs.js';
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

/** A change that waits for its confirmation. */
export type Task =
  | {kind: 'fork' | 'rewind' | 'delete'; sequence: number}
  | {kind: 'edit'; key: string; seen: Session};

/** What the parts of the view share. */
export interface Open {
  address: Address;
  model: SessionModel;
  list: ListModel;
  route: Route;
  session: Session;
  at: number | undefined;
  /** Selects an event and brings it into view; nothing: now. */
  select: (at: number | undefined) => void;
  /** Begins a change. Not offered if the caller may not write. */
  ask: ((task: Task) => void) | undefined;
  /** Changes the address. */
  set: (change: Partial<Route>, replace?: boolean) => void;
}

/** `reload` opens the session anew. */
export function SessionView({route, reload}: {route: Route; reload: () => void}) {
  const {appName, userId, sessionId} = route;
  const address: Address = useMemo(() => ({appName, userId, sessionId}), []);
  const model = useMemo(() => new SessionModel(address), []);
  const list = useMemo(() => new ListModel(ROW_HEIGHT, true), []);
  const task = useSignal<Task | undefined>(undefined);
  const canWrite = useSignal(false);
  const pane = useSignal<'events' | 'state'>('events');
  const [at, select] = useSelection(route, model, list);
  useEffect(() => {
    void model.open();
    void mayWrite(address).then(may => (canWrite.value = may));
    return () => model.close();
  }, []);
  const session = model.session.value;
  if (!session) {
    return model.error.value ? (
      <Empty title="The session cannot be shown">
        <Notice text={model.error.value} retry={reload} />
        It may have been deleted or have expired. <a href="#/">Look at the applications</a>.
      </Empty>
    ) : (
      <p class="page dim">Reading…</p>
    );
  }
  const mayAsk = canWrite.value && !isReadOnly.value && watchState.value !== 'gone';
  const ask = mayAsk ? (next: Task) => (task.value = next) : undefined;
  const set = (change: Partial<Route>, replace = false) => go({...route, at, ...change}, replace);
  const open = {address, model, list, route, session, at, select, ask, set};
  const time = model.log.get(at ?? 0)?.eventTime;
  return (
    <div class={`session-view show-${pane.value}`}>
      <SessionHead {...{...open, pane, reload}} />
      <div class="panes">
        <EventsPane {...open} />
        <StatePane {...open} />
      </div>
      <Timeline {...{at, last: model.shown.value, time, select}} />
      <Dialogs {...open} task={task} />
    </div>
  );
}

/** The event that is selected. The address has it too, and the place of the list is kept for Back. */
function useSelection(route: Route, model: SessionModel, list: ListModel) {
  const at = useSignal(route.at);
  const isOpen = model.session.value !== undefined;
  const select = (to: number | undefined) => {
    at.value = to;
    if (to === undefined) {
      list.follow();
    } else {
      list.show(Math.max(0, to - 1), -40);
    }
  };
  useEffect(() => {
    model.log.showsRewound = route.rewound;
    model.log.clear();
  }, [route.rewound]);
  useEffect(() => {
    const place = savedPlace<Anchor>();
    if (isOpen && route.event) {
      void sequenceOf(model.address, route.event).then(found => {
        go({...route, at: found, event: undefined}, true);
      });
    } else if (isOpen && place && at.value === route.at) {
      list.show(place.row, place.above);
    } else if (isOpen) {
      select(route.at);
    }
  }, [isOpen, route.at, route.event]);
  useEffect(() => {
    const isLate = at.value !== route.at && !route.event;
    const timer = setTimeout(() => isLate && go({...route, at: at.value}, true), ADDRESS_MS);
    return () => clearTimeout(timer);
  });
  useSignalEffect(() => {
    void list.range.value;
    const isAtEnd = list.isFollowing.value;
    const timer = setTimeout(() => savePlace(isAtEnd ? undefined : list.anchor), ADDRESS_MS);
    return () => clearTimeout(timer);
  });
  return [at.value, select] as const;
}

async function sequenceOf(address: Address, eventId: string): Promise<number | undefined> {
  const request = {key: address, refs: [{eventId}]};
  const found = await call('EventService/BatchGetEvents', request).catch(() => undefined);
  return found?.events?.[0] && Number(found.events[0].sequence);
}

function EventsPane({model, list, route, at, select, ask, set}: Open) {
  const show = (sequence: number) => {
    const [first, last] = list.range.value;
    const isInPage = first < sequence && sequence <= last + 1;
    select(sequence);
    if (isInPage) {
      // It is in view, or close to it.
      list.show(list.anchor.row, list.anchor.above);
    }
  };
  const actions = {
    ...{route, select: show},
    history: (key: string) => set({key}),
    find: (text: string) => set({find: text}),
    change: ask && ((kind: 'fork' | 'rewind', sequence: number) => ask({kind, sequence})),
  };
  return (
    <div class="events-pane">
      {route.find && (
        <FindResults
          {...{model, select, text: route.find, rewound: route.rewound}}
          close={() => set({find: undefined})}
        />
      )}
      <Conversation
        {...{model, list, actions, at}}
        showRewound={() => set({rewound: true}, true)}
      />
    </div>
  );
}

function StatePane({address, model, route, at, ask, set}: Open) {
  const last = model.shown.value;
  const base = Math.min(route.base ?? Math.max(0, (at ?? last) - 1), last);
  const version = model.stateVersion.value;
  return (
    <div class="state-pane">
      {route.key === undefined ? (
        <StatePanel
          {...{address, at, base, last, version}}
          setBase={to => set({base: to}, true)}
          history={key => set({key})}
          edit={ask && ((key, seen) => ask({kind: 'edit', key, seen}))}
        />
      ) : (
        <History
          {...{scope: address, name: route.key, version}}
          close={() => set({key: undefined})}
        />
      )}
    </div>
  );
}

function Dialogs({address, model, session, task, set}: Open & {task: Signal<Task | undefined>}) {
  const {appName, userId} = address;
  const close = () => (task.value = undefined);
  const asked = task.value;
  if (asked?.kind === 'edit') {
    const done = () => {
      close();
      set({}, true);
      model.stateVersion.value += 1;
    };
    return <EditDialog {...{scope: address, name: asked.key, seen: asked.seen, close, done}} />;
  }
  const its = {address, session, close, sequence: asked?.sequence ?? 0};
  switch (asked?.kind) {
    case 'fork':
      return <ForkDialog {...its} done={id => go(routeTo('session', appName, userId, id))} />;
    case 'rewind':
      return <RewindDialog {...its} last={model.newest.value} />;
    case 'delete':
      return <DeleteDialog {...its} done={() => go(routeTo('sessions', appName), true)} />;
    default:
      return null;
  }
}
