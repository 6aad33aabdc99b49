/** The applications of the store, the users of one, and the way to a session by its address. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {ApiError, call, messageOf} from '../api.js';
import {go, href, routeTo} from '../route.js';
import {Button, Empty, Field, Notice, shown, useRead} from './common.js';

const PAGE_SIZE = 200;

interface NamesProps {
  /** Returns the names of a page and the token of the next one. */
  read: (page: {pageSize: number; pageToken: string}) => Promise<[string[], string | undefined]>;
  to: (name: string) => string;
  /** Without a name. */
  empty: ComponentChildren;
}

/** Names, page by page, with links. */
function Names({read, to, empty}: NamesProps) {
  const names = useSignal<string[]>([]);
  const pageToken = useSignal('');
  const {value, error, message, again} = useRead(async () => {
    const [page, next = ''] = await read({pageSize: PAGE_SIZE, pageToken: pageToken.value});
    names.value = [...names.value, ...page];
    pageToken.value = next;
    return true;
  }, []);
  if (error instanceof ApiError && error.code === 'permission_denied') {
    return <Notice kind="info" text="You may not list them. Name what you may read." />;
  }
  const links = names.value.map(name => (
    <li key={name}>
      <a href={to(name)}>{shown(name)}</a>
    </li>
  ));
  return (
    <>
      <Notice text={message} retry={again} />
      {value && links.length === 0 && empty}
      <ul class="names">{links}</ul>
      {pageToken.value && <Button label="More" run={again} />}
    </>
  );
}

export function ApplicationsView() {
  const empty = (
    <Empty title="Nothing is stored yet">
      Connect an agent, or make sample sessions: <code>sessiond demo</code>
    </Empty>
  );
  const read: NamesProps['read'] = async request => {
    const {applications = [], ...page} = await call('AdminService/ListApplications', request);
    return [applications.map(({appName = ''}) => appName), page.nextPageToken];
  };
  return (
    <div class="page">
      <h1>Applications</h1>
      <Names {...{read, empty}} to={appName => href(routeTo('sessions', appName))} />
      <OpenForm />
    </div>
  );
}

export function UsersView({appName}: {appName: string}) {
  const empty = <Empty title="No users">The application has no user with sessions or state.</Empty>;
  const read: NamesProps['read'] = async request => {
    const {users = [], ...page} = await call('AdminService/ListUsers', {...request, appName});
    return [users.map(({userId = ''}) => userId), page.nextPageToken];
  };
  const to = (userId: string) => href(routeTo('sessions', appName, userId));
  return <div class="page">{<Names {...{read, to, empty}} />}</div>;
}

/** Opens an application, or a session. A session id alone is enough if it is unique. */
function OpenForm() {
  const key = useSignal({appName: '', userId: '', sessionId: ''});
  const error = useSignal('');
  const open = async (event: Event) => {
    event.preventDefault();
    const {appName, userId, sessionId} = key.value;
    if (!sessionId) {
      go(routeTo('sessions', appName, userId));
      return;
    }
    try {
      const request = {key: key.value, withoutState: true};
      const {session} = await call('SessionService/GetSession', request);
      go(routeTo('session', session?.key?.appName, session?.key?.userId, sessionId));
    } catch (failure) {
      error.value = messageOf(failure);
    }
  };
  const set = (part: Partial<typeof key.value>) => (key.value = {...key.value, ...part});
  return (
    <form class="open-form" onSubmit={event => void open(event)}>
      <h2>Open</h2>
      <Field label="Application" set={appName => set({appName})} />
      <Field label="User id" set={userId => set({userId})} />
      <Field label="Session id" set={sessionId => set({sessionId})} />
      <button class="primary">Open</button>
      <Notice text={error.value} />
    </form>
  );
}
