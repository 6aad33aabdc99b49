/** The sessions of an application, page by page. */

import {useSignal, type Signal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import type {Session} from '../contract.js';
import {go, href, routeTo, savePlace, savedPlace, type Route} from '../route.js';
import {listOf, nameOf, type SessionList} from '../session_list.js';
import {agoText, clockText, countText, plain, timeText} from '../text.js';
import {Empty, Link, Notice, Text} from './common.js';
import {List, ListModel, type Anchor} from './list.js';
import {Labels} from './session_head.js';

const ROW_HEIGHT = 56;
/** Rows before the end at which the next page is read. */
const AHEAD = 20;
const PLACE_MS = 300;
const COLUMNS = ['Session', 'User', 'Events', 'Last event', 'Last message'];

export function SessionsView({route}: {route: Route}) {
  const list = useMemo(() => listOf(route), []);
  const rows = useMemo(() => new ListModel(ROW_HEIGHT), []);
  const [first, last] = rows.range.value;
  const {sessions, hasMore, previews} = list;
  const count = sessions.value.length;
  useEffect(() => {
    const place = savedPlace<Anchor>();
    void list.readTo((place?.row ?? 0) + 1).then(() => place && rows.show(place.row, place.above));
  }, []);
  useEffect(() => {
    if (count > 0 && last >= count - AHEAD && hasMore.value) {
      void list.read();
    }
    list.preview(sessions.value.slice(first, last + 1));
    const save = setTimeout(() => count > 0 && savePlace(rows.anchor), PLACE_MS);
    return () => clearTimeout(save);
  }, [first, last, count, hasMore.value]);
  const row = (at: number) => <Row session={sessions.value[at] ?? {}} {...{at, previews}} />;
  return (
    <div class="sessions">
      <Filters {...{route, list, rows}} />
      <Notice retry={() => void list.read()}>{list.error.value}</Notice>
      {count === 0 && !hasMore.value && <NoSessions route={route} />}
      <div
        class="table"
        role="table"
        aria-label="Sessions"
        aria-rowcount={hasMore.value ? -1 : count + 1}>
        <div role="rowgroup">
          <div class="row head" role="row">
            {COLUMNS.map(name => (
              <span role="columnheader" key={name}>
                {name}
              </span>
            ))}
          </div>
        </div>
        <List {...{list: rows, count, row}} role="rowgroup" label="Sessions" />
      </div>
    </div>
  );
}

function Row(props: {session: Session; at: number; previews: Signal<Map<string, string>>}) {
  const {session, at, previews} = props;
  const {key, displayName, expireTime, lastEventTime, lastSequence} = session;
  const {appName, userId = '', sessionId = ''} = key ?? {};
  return (
    <div class="row" role="row" aria-rowindex={at + 2}>
      <span role="cell">
        <a href={href(routeTo('session', appName, userId, sessionId))}>
          <Text text={displayName || sessionId} limit={120} />
        </a>
        <span class="sub">
          {displayName && <Text text={sessionId} limit={80} />} <Labels session={session} />
        </span>
      </span>
      <span role="cell">
        <Text text={userId} limit={80} />
      </span>
      <span role="cell" class="count">
        {Number(lastSequence ?? 0).toLocaleString('en')}
      </span>
      <span role="cell" title={timeText(lastEventTime)}>
        {agoText(lastEventTime, Date.now())}
        {expireTime && <span class="sub">expires {agoText(expireTime, Date.now())}</span>}
      </span>
      <span role="cell" class="last-message">
        <Text text={previews.value.get(nameOf(session)) ?? ''} limit={200} />
      </span>
    </div>
  );
}

function NoSessions({route}: {route: Route}) {
  return route.userId || route.labels.length > 0 ? (
    <Empty title="No session passes the filter">
      <Link run={() => go({...route, userId: '', labels: []})}>Show all sessions</Link> of the
      application.
    </Empty>
  ) : (
    <Empty title="No sessions yet">
      Create one from your agent, or make sample sessions: <code>sessiond demo</code>
    </Empty>
  );
}

function Filters({route, list, rows}: {route: Route; list: SessionList; rows: ListModel}) {
  const {labels, oldestFirst, userId} = route;
  const state = useSignal('');
  const addLabel = (label: string) => {
    if (label.includes('=')) {
      go({...route, labels: [...new Set([...labels, label.trim()])]});
    } else if (label) {
      state.value = 'A label is written as name=value. ';
    }
  };
  const jump = async (time: string) => {
    state.value = 'Reading up to this time. ';
    rows.show(time ? await list.rowAt(Date.parse(time)) : 0, 0);
    state.value = '';
  };
  const count = countText(list.sessions.value.length, 'session');
  const more = list.hasMore.value ? ' so far' : '';
  return (
    <form class="pane-tools" role="search" onSubmit={event => event.preventDefault()}>
      <input
        {...{type: 'search', placeholder: 'User id', 'aria-label': 'User id', value: userId}}
        onChange={input => go({...route, userId: input.currentTarget.value})}
      />
      <input
        {...{placeholder: 'label=value', 'aria-label': 'Label'}}
        onChange={input => addLabel(input.currentTarget.value)}
      />
      {labels.map(label => (
        <button
          class="tag"
          key={label}
          aria-label={`Remove the label ${plain(label)}`}
          onClick={() => go({...route, labels: labels.filter(other => other !== label)})}>
          <Text text={label} /> ×
        </button>
      ))}
      <label>
        jump to{' '}
        <input type="datetime-local" onChange={input => void jump(input.currentTarget.value)} />
      </label>
      <button onClick={() => go({...route, oldestFirst: !oldestFirst})}>
        {oldestFirst ? 'oldest first' : 'newest first'}
      </button>
      <span class="dim" role="status">
        {state.value}
        {list.readAt.value > 0 && `${count}${more}, as of ${clockText(list.readAt.value)}`}
      </span>
      <button onClick={() => list.reload()}>Reload</button>
    </form>
  );
}
