/** A session: its conversation, its state at any event, and what can be done with it. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import {call} from '../api.js';
import type {Anchor} from '../list.js';
import {go, routeTo, savePlace, savedPlace, type Route} from '../route.js';
import {SessionModel} from '../session.js';
import {Empty, Notice} from './common.js';
import {Conversation} from './conversation.js';
import {DeleteDialog, EditDialog, ForkDialog, RewindDialog} from './dialogs.js';
import {FindResults} from './find.js';
import {History} from './history.js';
import {StatePanel} from './panel.js';
import {SessionHead} from './session_head.js';
import {Timeline} from './timeline.js';

/** Browsers refuse more than some 100 changes of the address in 30 s. */
const ADDRESS_MS = 400;

/** `reload` opens the session anew. */
export function SessionView({route, reload}: {route: Route; reload: () => void}) {
  const {appName, userId, sessionId, find, key} = route;
  const model = useMemo(() => new SessionModel({appName, userId, sessionId}), []);
  const pane = useSignal<'events' | 'state'>('events');
  useEffect(() => {
    void model.open();
    return () => model.close();
  }, []);
  usePlace(route, model);
  if (!model.session.value) {
    return model.error.value ? (
      <Empty title="The session cannot be shown">
        <Notice text={model.error.value} retry={reload} />
        It may have been deleted or have expired. <a href="#/">Look at the applications</a>.
      </Empty>
    ) : (
      <p class="page dim">Reading…</p>
    );
  }
  const version = model.stateVersion.value;
  const close = () => model.go({key: undefined});
  return (
    <div class={`session-view show-${pane.value}`}>
      <SessionHead {...{model, route, pane, reload}} />
      <div class="panes">
        <div class="events-pane">
          {find && <FindResults {...{model, text: find, rewound: route.rewound}} />}
          <Conversation model={model} />
        </div>
        <div class="state-pane">
          {key === undefined ? (
            <StatePanel {...{model, base: route.base}} />
          ) : (
            <History {...{scope: model.address, name: key, version, close}} />
          )}
        </div>
      </div>
      <Timeline model={model} />
      <Dialogs model={model} />
    </div>
  );
}

/** Keeps the address and the selection alike, and the place of the list for Back. */
function usePlace(route: Route, model: SessionModel) {
  const {list, log, at} = model;
  const isOpen = model.session.value !== undefined;
  useEffect(() => {
    log.showsRewound = route.rewound;
    log.clear();
  }, [route.rewound]);
  useEffect(() => {
    const place = savedPlace<Anchor>();
    if (isOpen && route.event) {
      void goToEvent(model, route.event);
    } else if (isOpen && place && at.value === route.at) {
      list.show(place.row, place.above);
    } else if (isOpen) {
      model.select(route.at);
    }
  }, [isOpen, route.at, route.event]);
  useEffect(() => {
    const isLate = at.value !== route.at && !route.event;
    const timer = setTimeout(() => isLate && model.go({}, true), ADDRESS_MS);
    return () => clearTimeout(timer);
  });
  useSignalEffect(() => {
    void list.range.value;
    const isAtEnd = list.isFollowing.value;
    const timer = setTimeout(() => savePlace(isAtEnd ? undefined : list.anchor), ADDRESS_MS);
    return () => clearTimeout(timer);
  });
}

async function goToEvent(model: SessionModel, eventId: string): Promise<void> {
  const request = {key: model.address, refs: [{eventId}]};
  const found = await call('EventService/BatchGetEvents', request).catch(() => undefined);
  const {sequence, rewound} = found?.events?.[0] ?? {};
  const at = sequence === undefined ? undefined : Number(sequence);
  model.go({at, event: undefined, ...(rewound && {rewound})}, true);
}

function Dialogs({model}: {model: SessionModel}) {
  const {address, task, newest, stateVersion} = model;
  const {appName, userId} = address;
  const close = () => (task.value = undefined);
  const asked = task.value;
  if (asked?.kind === 'edit') {
    const done = () => {
      close();
      stateVersion.value += 1;
    };
    return <EditDialog {...{scope: address, name: asked.key, seen: asked.seen, close, done}} />;
  }
  const its = {model, close, sequence: asked?.sequence ?? 0};
  switch (asked?.kind) {
    case 'fork':
      return <ForkDialog {...its} done={id => go(routeTo('session', appName, userId, id))} />;
    case 'rewind':
      return <RewindDialog {...its} last={newest.value} />;
    case 'delete':
      return <DeleteDialog {...its} done={() => go(routeTo('sessions', appName), true)} />;
    default:
      return null;
  }
}
