/** The applications of the store, the users of one, and the way to a session by its address. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {attempt, call, isRefusal, pages} from '../api.js';
import type {Calls} from '../contract.js';
import {go, href, routeTo, toSession} from '../route.js';
import {Empty, Field, Notice, shown, usePages} from './common.js';

type Page = Calls['AdminService/ListApplications'][1] & Calls['AdminService/ListUsers'][1];

interface NamesProps {
  list: (abort: AbortSignal) => AsyncGenerator<Page>;
  to: (name: string) => string;
  /** Shown if there are no names. */
  empty: ComponentChildren;
  /** The application whose users they are. */
  appName?: string;
}

/** Names, page by page, with links. Those that are not listed can be given. */
function Names({list, to, empty, appName = ''}: NamesProps) {
  const isRefused = useSignal(false);
  const {value, message, again, more} = usePages(async function* (abort) {
    try {
      yield* list(abort);
    } catch (error) {
      isRefused.value = isRefusal(error);
      throw error;
    }
  });
  const names = value?.flatMap(({applications = [], users = []}) => [
    ...applications.map(({appName = ''}) => appName),
    ...users.map(({userId = ''}) => userId),
  ]);
  return (
    <>
      {!isRefused.value && <Notice text={message} retry={again} />}
      {names?.length === 0 && empty}
      <ul class="names">
        {names?.map(name => (
          <li key={name}>
            <a href={to(name)}>{shown(name)}</a>
          </li>
        ))}
      </ul>
      {more}
      {isRefused.value && (
        <Notice kind="info" text="You may not list them. Name here what you may read:" />
      )}
      <OpenForm given={appName} />
    </>
  );
}

export function ApplicationsView() {
  const empty = (
    <Empty title="Nothing is stored yet">
      Connect an agent, or make sample sessions: <code>sessiond demo</code>
    </Empty>
  );
  const list = (abort: AbortSignal) => pages('AdminService/ListApplications', {}, abort);
  return (
    <div class="page">
      <h1>Applications</h1>
      <Names {...{list, empty}} to={appName => href(routeTo('sessions', appName))} />
    </div>
  );
}

export function UsersView({appName}: {appName: string}) {
  const empty = <Empty title="No users">The application has no user with sessions or state.</Empty>;
  const list = (abort: AbortSignal) => pages('AdminService/ListUsers', {appName}, abort);
  const to = (userId: string) => href(routeTo('sessions', appName, userId));
  return <div class="page">{<Names {...{list, to, empty, appName}} />}</div>;
}

/** Opens an application, or a session. A session id alone is enough if it is unique. */
function OpenForm({given}: {given: string}) {
  const [appName, userId, sessionId] = [useSignal(given), useSignal(''), useSignal('')];
  const error = useSignal('');
  const open = async () => {
    if (!sessionId.value) {
      go(routeTo('sessions', appName.value, userId.value));
      return;
    }
    const key = {appName: appName.value, userId: userId.value, sessionId: sessionId.value};
    const {session} = await call('SessionService/GetSession', {key, withoutState: true});
    go(toSession(session?.key));
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void attempt(error, open);
  };
  return (
    <form class="open-form" onSubmit={submit}>
      <h2>Open</h2>
      <Field label="Application" value={given} set={text => (appName.value = text)} />
      <Field label="User id" set={text => (userId.value = text)} />
      <Field label="Session id" set={text => (sessionId.value = text)} />
      <button class="primary">Open</button>
      <Notice text={error.value} />
    </form>
  );
}
