/** The sessions of an application, page by page. */

import {useSignal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import type {Session} from '../contract.js';
import {ListModel, type Anchor} from '../list.js';
import {go, href, routeTo, savePlace, savedPlace, type Route} from '../route.js';
import {listOf, nameOf, type SessionList} from '../session_list.js';
import {agoText, clockText, countText, plain} from '../text.js';
import {Button, Empty, Link, Notice, shown} from './common.js';
import {List} from './list.js';
import {labelsOf} from './session_head.js';

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
  const row = (at: number) => {
    const session = sessions.value[at] ?? {};
    return <Row {...{session, at, message: previews.value.get(nameOf(session))}} />;
  };
  const heads = COLUMNS.map(name => <span role="columnheader">{name}</span>);
  return (
    <div class="sessions">
      <Filters {...{route, list, rows}} />
      <Notice text={list.error.value} retry={() => void list.read()} />
      {count === 0 && !hasMore.value && <NoSessions route={route} />}
      <div class="table" role="table" aria-label="Sessions">
        <div role="rowgroup">
          <div {...{class: 'row head', role: 'row'}}>{heads}</div>
        </div>
        <List {...{list: rows, count, row, role: 'rowgroup', label: 'Sessions'}} />
      </div>
    </div>
  );
}

type RowProps = {session: Session; at: number; message: string | undefined};

function Row({session, at, message}: RowProps) {
  const {key, displayName, expireTime, lastEventTime, lastSequence = '0'} = session;
  const {appName, userId = '', sessionId = ''} = key ?? {};
  const expires = expireTime && `expires ${agoText(expireTime, Date.now())}`;
  const cell = {role: 'cell'} as const;
  return (
    <div class="row" role="row" aria-rowindex={at + 2}>
      <span {...cell}>
        <a href={href(routeTo('session', appName, userId, sessionId))}>
          {shown(displayName || sessionId, 120)}
        </a>
        <span class="sub">{[displayName && shown(sessionId, 80), ' ', labelsOf(session)]}</span>
      </span>
      <span {...cell}>{shown(userId, 80)}</span>
      <span {...{...cell, class: 'count'}}>{Number(lastSequence).toLocaleString('en')}</span>
      <span {...cell}>
        {agoText(lastEventTime, Date.now())} <span class="sub">{expires}</span>
      </span>
      <span {...{...cell, class: 'last-message'}}>{shown(message, 200)}</span>
    </div>
  );
}

function NoSessions({route}: {route: Route}) {
  return route.userId || route.labels.length > 0 ? (
    <Empty title="No session passes the filter">
      <Link label="Show all sessions" run={() => go({...route, userId: '', labels: []})} />
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
  const asOf = `${list.hasMore.value ? ' so far' : ''}, as of ${clockText(list.readAt.value)}`;
  const field = (name: string, value: string, set: (text: string) => void) => (
    <input
      {...{type: 'search', placeholder: name, 'aria-label': name, value}}
      onChange={input => set(input.currentTarget.value)}
    />
  );
  return (
    <form class="pane-tools" role="search" onSubmit={event => event.preventDefault()}>
      {field('User id', userId, id => go({...route, userId: id}))}
      {field('label=value', '', addLabel)}
      {labels.map(label => {
        const run = () => go({...route, labels: labels.filter(other => other !== label)});
        const title = `Remove the label ${plain(label)}`;
        return <Button key={label} class="tag" label={[shown(label), ' ×']} {...{run, title}} />;
      })}
      <label>
        jump to{' '}
        <input type="datetime-local" onChange={input => void jump(input.currentTarget.value)} />
      </label>
      <Button
        label={oldestFirst ? 'oldest first' : 'newest first'}
        run={() => go({...route, oldestFirst: !oldestFirst})}
      />
      <span class="dim" role="status">
        {state.value + (list.readAt.value > 0 ? count + asOf : '')}
      </span>
      <Button label="Reload" run={() => list.reload()} />
    </form>
  );
}
