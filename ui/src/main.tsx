/** The inspector: the frame around the views. */

import {useSignal} from '@preact/signals';
import {render} from 'preact';
import {useEffect} from 'preact/hooks';
import {hasIdentities, isReadOnly, loadSettings, needsToken, takeToken, token} from './api.js';
import {go, href, parseRoute, route, routeTo, type Route} from './route.js';
import {plain} from './text.js';
import {ApplicationsView, UsersView} from './views/applications.js';
import {Button, shown, tag} from './views/common.js';
import {ServerCorner, TokenForm, signOut} from './views/server.js';
import {SessionView} from './views/session.js';
import {SessionsView} from './views/sessions.js';
import {SharedState} from './views/state.js';

function App() {
  const to = route.value;
  // Rises when the view is to be made anew, as after a session was deleted and created again.
  const life = useSignal(0);
  const {view, appName, userId, sessionId} = to;
  // Another key makes a new view. With the same one, the view stays and gets the new route.
  const key = view === 'sessions' ? href(to) : JSON.stringify([view, appName, userId, sessionId]);
  const name = sessionId || appName;
  useEffect(() => {
    document.title = `${name ? plain(name, 60) : 'Applications'} · sessiond`;
  }, [name]);
  const reload = () => (life.value += 1);
  const isSignedIn = hasIdentities.value && token.value && !needsToken.value;
  return (
    <>
      <header class="bar">
        <a class="brand" href="#/">
          sessiond
        </a>
        <nav class="crumbs" aria-label="Place">
          {appName && <a href={href(routeTo('sessions', appName))}>{shown(appName, 60)}</a>}
          {userId && <a href={href(routeTo('sessions', appName, userId))}>{shown(userId, 60)}</a>}
        </nav>
        {isReadOnly.value && tag('read-only')}
        <ServerCorner key={token.value} />
        {isSignedIn && <Button label="Sign out" run={signOut} />}
      </header>
      <main>
        {needsToken.value ? <TokenForm /> : <View key={key + life.value} {...{to, reload}} />}
      </main>
    </>
  );
}

function View({to, reload}: {to: Route; reload: () => void}) {
  if (to.view === 'applications') {
    return <ApplicationsView />;
  }
  if (to.view === 'session') {
    return <SessionView {...{route: to, reload}} />;
  }
  return (
    <>
      <ApplicationHead {...to} />
      {to.view === 'sessions' && <SessionsView {...{route: to, reload}} />}
      {to.view === 'users' && <UsersView appName={to.appName} />}
      {to.view === 'state' && <SharedState route={to} />}
    </>
  );
}

function ApplicationHead({view, appName, userId}: Route) {
  const tabs: [string, Route][] = [
    ['Sessions', routeTo('sessions', appName, userId)],
    ['Users', routeTo('users', appName)],
    ['State', routeTo('state', appName, userId)],
  ];
  return (
    <div class="application-head">
      <h1>{shown(userId || appName)}</h1>
      <nav class="tabs" aria-label="Views of the application">
        {tabs.map(([name, to]) => (
          <a {...{href: href(to), 'aria-current': to.view === view ? 'page' : undefined}}>{name}</a>
        ))}
      </nav>
    </div>
  );
}

/** Reads the address, also when it was edited in an open page. */
function arrive() {
  takeToken();
  go(parseRoute(location.hash), true);
}

arrive();
addEventListener('hashchange', arrive);
const root = document.getElementById('app') as HTMLElement;
void loadSettings()
  .catch(() => undefined)
  .then(() => render(<App />, root));
