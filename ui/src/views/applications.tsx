/** The applications of the store, the users of one, and the way to a session whose address is known. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {ApiError, call, messageOf} from '../api.js';
import {go, href, routeTo} from '../route.js';
import {Empty, Field, Notice, Text, useRead} from './common.js';

const PAGE_SIZE = 200;

interface NamesProps {
  /** Returns the names of a page and the token of the next one. */
  read: (
    page: {pageSize: number; pageToken: string},
    abort: AbortSignal,
  ) => Promise<[string[], string]>;
  to: (name: string) => string;
  title: string;
  hint: ComponentChildren;
}

/** Names, page by page, with links. */
function Names({read, to, title, hint}: NamesProps) {
  const names = useSignal<string[]>([]);
  const pageToken = useSignal('');
  const {value, error, message, again} = useRead(async abort => {
    const [page, next] = await read({pageSize: PAGE_SIZE, pageToken: pageToken.value}, abort);
    names.value = [...names.value, ...page];
    pageToken.value = next;
    return true;
  }, []);
  if (error instanceof ApiError && error.code === 'permission_denied') {
    return <Notice kind="info">You may not list them. Name what you may read.</Notice>;
  }
  return (
    <>
      <Notice retry={again}>{message}</Notice>
      {value.value && names.value.length === 0 && <Empty title={title}>{hint}</Empty>}
      <ul class="names">
        {names.value.map(name => (
          <li key={name}>
            <a href={to(name)}>
              <Text text={name} />
            </a>
          </li>
        ))}
      </ul>
      {pageToken.value && <button onClick={again}>More</button>}
    </>
  );
}

export function ApplicationsView() {
  return (
    <div class="page">
      <h1>Applications</h1>
      <Names
        read={async (request, abort) => {
          const page = await call('AdminService/ListApplications', request, abort);
          return [(page.applications ?? []).map(it => it.appName ?? ''), page.nextPageToken ?? ''];
        }}
        to={appName => href(routeTo('sessions', appName))}
        title="Nothing is stored yet"
        hint={
          <>
            Connect an agent, or make sample sessions: <code>sessiond demo</code>
          </>
        }
      />
      <OpenForm />
    </div>
  );
}

export function UsersView({appName}: {appName: string}) {
  return (
    <div class="page">
      <Names
        read={async (request, abort) => {
          const page = await call('AdminService/ListUsers', {...request, appName}, abort);
          return [(page.users ?? []).map(it => it.userId ?? ''), page.nextPageToken ?? ''];
        }}
        to={userId => href(routeTo('sessions', appName, userId))}
        title="No users"
        hint="The application has neither sessions nor state of users."
      />
    </div>
  );
}

/** Opens a session by its address, or an application. A session id alone is enough if it is unique. */
function OpenForm() {
  const appName = useSignal('');
  const userId = useSignal('');
  const sessionId = useSignal('');
  const error = useSignal('');
  const open = async (event: Event) => {
    event.preventDefault();
    const key = {appName: appName.value, userId: userId.value, sessionId: sessionId.value};
    if (!key.sessionId) {
      go(routeTo('sessions', key.appName, key.userId));
      return;
    }
    try {
      const found = await call('SessionService/GetSession', {key, withoutState: true});
      const its = {...key, ...found.session?.key};
      go(routeTo('session', its.appName, its.userId, its.sessionId));
    } catch (failure) {
      error.value = messageOf(failure);
    }
  };
  return (
    <form class="open-form" onSubmit={event => void open(event)}>
      <h2>Open</h2>
      <Field label="Application" set={text => (appName.value = text)} />
      <Field label="User id" set={text => (userId.value = text)} />
      <Field label="Session id" set={text => (sessionId.value = text)} />
      <button class="primary">Open</button>
      <Notice>{error.value}</Notice>
    </form>
  );
}
