/** The inspector: the frame around the views. */

import {useSignal} from '@preact/signals';
import {render} from 'preact';
import {useEffect} from 'preact/hooks';
import {hasIdentities, isReadOnly, loadSettings, needsToken, takeToken, token} from './api.js';
import {go, href, parseRoute, route, routeTo, type Route} from './route.js';
import {plain} from './text.js';
import {ApplicationsView, UsersView} from './views/applications.js';
import {Button, shown, tag} from './views/common.js';
import {ServerCorner} from './views/server.js';
import {SessionView} from './views/session.js';
import {SessionsView} from './views/sessions.js';
import {SharedStateView} from './views/shared.js';
import {TokenForm, signOut} from './views/token.js';

const SCHEME = 'sessiond-color-scheme';

function App() {
  const to = route.value;
  // A session that is deleted and created anew is another one.
  const life = useSignal(0);
  const {view, appName, userId, sessionId} = to;
  // Views with another key are other views. Within one, its route may change.
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
        <Crumbs {...to} />
        {isReadOnly.value && tag('read-only')}
        <ServerCorner key={token.value} />
        <SchemeButton />
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
      {to.view === 'sessions' && <SessionsView route={to} />}
      {to.view === 'users' && <UsersView appName={to.appName} />}
      {to.view === 'state' && <SharedStateView route={to} />}
    </>
  );
}

function Crumbs({appName, userId}: Route) {
  const links = [
    appName && <a href={href(routeTo('sessions', appName))}>{shown(appName, 60)}</a>,
    userId && <a href={href(routeTo('sessions', appName, userId))}>{shown(userId, 60)}</a>,
  ];
  return <nav {...{class: 'crumbs', 'aria-label': 'Place'}}>{links}</nav>;
}

function ApplicationHead({view, appName, userId}: Route) {
  const tabs: [string, Route][] = [
    ['Sessions', routeTo('sessions', appName, userId)],
    ['Users', routeTo('users', appName)],
    ['State', routeTo('state', appName, userId)],
  ];
  const links = tabs.map(([name, to]) => {
    const current = to.view === view ? 'page' : undefined;
    return <a {...{href: href(to), 'aria-current': current}}>{name}</a>;
  });
  return (
    <div class="application-head">
      <h1>{shown(userId || appName)}</h1>
      <nav {...{class: 'tabs', 'aria-label': 'Views of the application'}}>{links}</nav>
    </div>
  );
}

/** Dark, light, or as the system has it. */
function SchemeButton() {
  const scheme = useSignal(localStorage.getItem(SCHEME) ?? '');
  useEffect(() => {
    document.documentElement.style.colorScheme = scheme.value || 'light dark';
    localStorage.setItem(SCHEME, scheme.value);
  }, [scheme.value]);
  const next = {'': 'dark', dark: 'light'}[scheme.value] ?? '';
  const label = {dark: '☾', light: '☀'}[scheme.value] ?? '◐';
  const title = `Colors: ${scheme.value || 'of the system'}`;
  return <Button {...{label, title}} run={() => (scheme.value = next)} />;
}

takeToken();
go(parseRoute(location.hash), true);
const root = document.getElementById('app') as HTMLElement;
void loadSettings()
  .catch(() => undefined)
  .then(() => render(<App />, root));
