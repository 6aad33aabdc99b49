/** The sessions of an application: read page by page, each with its last message. */

import {signal, useSignal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import {TEXT, attempt, call, token} from '../api.js';
import {readBody, summaryOf} from '../body.js';
import type {Session} from '../contract.js';
import {List, ListModel, type Anchor} from '../list.js';
import {go, href, savePlace, savedPlace, toSession, type Route} from '../route.js';
import {agoText, clockText, countText, plain} from '../text.js';
import {Button, Empty, Filter, Link, Notice, shown, useRead} from './common.js';
import {labelsOf} from './session.js';

const PAGE_SIZE = 200;
/** Pages that are read to find a place. */
const JUMP_PAGE_SIZE = 1000;
const PREVIEW_EVENTS = 4;

class SessionList {
  readonly sessions = signal<Session[]>([]);
  readonly hasMore = signal(true);
  readonly error = signal('');
  readonly readAt = signal(0);
  readonly name: string;
  #pageToken = '';
  #abort = new AbortController();
  #reading: Promise<void> | undefined;

  constructor(readonly route: Route) {
    this.name = nameOf(route);
  }

  /** Reads the next page. Calls meanwhile wait for the same one. */
  read(pageSize = PAGE_SIZE): Promise<void> {
    this.#reading ??= attempt(this.error, () => this.#readPage(pageSize)).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Reads on until a session is the one that is looked for. Returns its row, or the last one. */
  async rowOf(isWanted: (session: Session, row: number) => boolean): Promise<number> {
    const {signal} = this.#abort;
    const rowNow = () => this.sessions.value.findIndex(isWanted);
    while (rowNow() < 0 && this.hasMore.value && !signal.aborted) {
      await this.read(JUMP_PAGE_SIZE);
      if (this.error.value) {
        break;
      }
    }
    const row = rowNow();
    return row >= 0 ? row : Math.max(0, this.sessions.value.length - 1);
  }

  /** Ends what is read. It can be read on later. */
  stop(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  async #readPage(pageSize: number): Promise<void> {
    if (!this.hasMore.value) {
      return;
    }
    const {appName, userId, labels, oldestFirst} = this.route;
    const order = `SESSION_ORDER_LAST_EVENT_TIME_${oldestFirst ? 'ASC' : 'DESC'}` as const;
    const filter = Object.fromEntries(labels.map(label => label.split(/=(.*)/s, 2)));
    const request = {appName, userId, labels: filter, order, pageSize, pageToken: this.#pageToken};
    const page = await call('SessionService/ListSessions', request, this.#abort.signal);
    this.sessions.value = [...this.sessions.value, ...(page.sessions ?? [])];
    this.#pageToken = page.nextPageToken ?? '';
    this.hasMore.value = this.#pageToken !== '';
    this.readAt.value ||= Date.now();
  }
}

const messages = new WeakMap<Session, string>();

/** What was said last in a session. */
async function lastMessage(session: Session, abort: AbortSignal): Promise<string> {
  const request = {key: session.key ?? {}, pageSize: PREVIEW_EVENTS, descending: true, ...TEXT};
  const {events = []} = messages.has(session)
    ? {}
    : await call('EventService/ListEvents', request, abort);
  const said = events.map(({author, bodyJson}) => [author, summaryOf(readBody(bodyJson))]);
  const message = messages.get(session) ?? said.find(([, text]) => text)?.join(': ') ?? '';
  messages.set(session, message);
  return message;
}

/** The address and the token, because callers see different sessions. */
function nameOf(route: Route): string {
  return href(route) + token.value;
}

let last: SessionList | undefined;

/** The sessions of a route. Back finds the last list as it was. */
function listOf(route: Route): SessionList {
  if (!last || last.name !== nameOf(route) || savedPlace() === undefined) {
    last = new SessionList(route);
  }
  return last;
}

const ROW_HEIGHT = 56;
/** Rows before the end at which the next page is read. */
const AHEAD = 20;
/** Scrolling has to rest this long before the place is kept and last messages are read. */
const REST_MS = 300;
const COLUMNS = ['Session', 'User', 'Events', 'Last event', 'Last message'];

type ViewProps = {route: Route; reload: () => void};

export function SessionsView({route, reload}: ViewProps) {
  const list = useMemo(() => listOf(route), []);
  const rows = useMemo(() => new ListModel(ROW_HEIGHT), []);
  const [first, last] = rows.range.value;
  const {sessions, hasMore, error} = list;
  const count = sessions.value.length;
  useEffect(() => {
    const place = savedPlace<Anchor>();
    if (place) {
      void list.rowOf((_, row) => row >= place.row).then(row => rows.show(row, place.above));
    }
    return () => list.stop();
  }, []);
  useEffect(() => {
    if (last >= count - AHEAD) {
      void list.read();
    }
    const save = setTimeout(() => count > 0 && savePlace(rows.anchor), REST_MS);
    return () => clearTimeout(save);
  }, [first, last, count]);
  return (
    <div class="sessions">
      <Filters {...{route, list, rows, reload}} />
      <Notice text={error.value} retry={() => void list.read()} />
      {count === 0 && !hasMore.value && <NoSessions route={route} />}
      <div class="table" role="table" aria-label="Sessions">
        <div role="rowgroup">
          <div class="row head" role="row">
            {COLUMNS.map(name => (
              <span role="columnheader">{name}</span>
            ))}
          </div>
        </div>
        <List
          {...{list: rows, count, role: 'rowgroup', label: 'Sessions'}}
          row={at => <Row session={sessions.value[at] ?? {}} at={at} />}
        />
      </div>
    </div>
  );
}

function Row({session, at}: {session: Session; at: number}) {
  const {key, displayName, expireTime, lastEventTime, lastSequence = '0'} = session;
  const to = toSession(key);
  const expires = expireTime && `expires ${agoText(expireTime, Date.now())}`;
  const message = useRead(abort => lastMessage(session, abort), [session], REST_MS).value;
  return (
    <div class="row" role="row" aria-rowindex={at + 2}>
      <span role="cell">
        <a href={href(to)}>{shown(displayName || to.sessionId, 120)}</a>
        <span class="sub">{[displayName && shown(to.sessionId, 80), ' ', labelsOf(session)]}</span>
      </span>
      <span role="cell">{shown(to.userId, 80)}</span>
      <span role="cell">{Number(lastSequence).toLocaleString('en')}</span>
      <span role="cell">
        {agoText(lastEventTime, Date.now())} <span class="sub">{expires}</span>
      </span>
      <span role="cell">{shown(message, 200)}</span>
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

type FiltersProps = ViewProps & {list: SessionList; rows: ListModel};

function Filters({route, list, rows, reload}: FiltersProps) {
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
    const [wanted, sign] = [Date.parse(time), oldestFirst ? 1 : -1];
    const isBeyond = ({lastEventTime = ''}: Session) =>
      sign * (Date.parse(lastEventTime) - wanted) >= 0;
    state.value = 'Reading up to this time. ';
    rows.show(time ? await list.rowOf(isBeyond) : 0, 0);
    state.value = '';
  };
  const again = () => {
    savePlace(undefined);
    reload();
  };
  const count = countText(list.sessions.value.length, 'session');
  const asOf = `${list.hasMore.value ? ' so far' : ''}, as of ${clockText(list.readAt.value)}`;
  return (
    <form class="pane-tools" role="search" onSubmit={event => event.preventDefault()}>
      <Filter label="User id" value={userId} set={id => go({...route, userId: id})} />
      <Filter label="label=value" value="" set={addLabel} />
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
      <Button label="Reload" run={again} />
    </form>
  );
}
