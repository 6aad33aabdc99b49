/** The inspector: the frame around the views. */

import {useSignal} from '@preact/signals';
import {render} from 'preact';
import {useEffect} from 'preact/hooks';
import {hasIdentities, isReadOnly, loadSettings, needsToken, takeToken, token} from './api.js';
import {go, href, route, routeTo, type Route} from './route.js';
import {plain} from './text.js';
import {ApplicationsView, UsersView} from './views/applications.js';
import {Text} from './views/common.js';
import {ServerCorner} from './views/server.js';
import {SessionView} from './views/session.js';
import {SessionsView} from './views/sessions.js';
import {SharedStateView} from './views/shared.js';
import {signOut, TokenForm} from './views/token.js';

const SCHEME = 'sessiond-color-scheme';

function App() {
  const to = route.value;
  // A session that is deleted and created anew is another one.
  const life = useSignal(0);
  useEffect(() => {
    document.title = `${titleOf(to)} · sessiond`;
  }, [to]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href="#/">
          sessiond
        </a>
        <Crumbs to={to} />
        {isReadOnly.value && <span class="tag">read-only</span>}
        <ServerCorner />
        <SchemeButton />
        {hasIdentities.value && token.value && !needsToken.value && (
          <button onClick={signOut}>Sign out</button>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {needsToken.value ? (
          <TokenForm />
        ) : (
          <View key={`${keyOf(to)}${life.value}`} to={to} reload={() => (life.value += 1)} />
        )}
      </main>
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
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
      <ApplicationTabs to={to} />
      {to.view === 'sessions' && <SessionsView route={to} />}
      {to.view === 'users' && <UsersView appName={to.appName} />}
      {to.view === 'state' && <SharedStateView route={to} />}
    </>
  );
}

/** Views with another key are other views. Within one, its route may change. */
function keyOf(to: Route): string {
  const {view, appName, userId, sessionId} = to;
  return view === 'sessions' ? href(to) : JSON.stringify([view, appName, userId, sessionId]);
}

function titleOf({appName, sessionId}: Route): string {
  return sessionId || appName ? plain(sessionId || appName, 60) : 'Applications';
}

function Crumbs({to}: {to: Route}) {
  if (to.view === 'applications') {
    return <nav class="crumbs" aria-label="Place" />;
  }
  const {appName} = to;
  const userId = 'userId' in to ? to.userId : '';
  return (
    <nav class="crumbs" aria-label="Place">
      <a href={href(routeTo('sessions', appName))}>
        <Text text={appName} limit={60} />
      </a>
      {userId && (
        <a href={href(routeTo('sessions', appName, userId))}>
          <Text text={userId} limit={60} />
        </a>
      )}
    </nav>
  );
}

function ApplicationTabs({to: {view, appName, userId}}: {to: Route}) {
  const tabs: [string, Route][] = [
    ['Sessions', routeTo('sessions', appName, userId)],
    ['Users', routeTo('users', appName)],
    ['State', routeTo('state', appName, userId)],
  ];
  return (
    <div class="application-head">
      <h1>
        <Text text={userId || appName} />
      </h1>
      <nav class="tabs" aria-label="Views of the application">
        {tabs.map(([name, to]) => (
          <a key={name} href={href(to)} aria-current={to.view === view ? 'page' : undefined}>
            {name}
          </a>
        ))}
      </nav>
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
  const next = {'': 'dark', dark: 'light', light: ''}[scheme.value] ?? '';
  return (
    <button
      aria-label={`Colors: ${scheme.value || 'of the system'}`}
      title={`Colors: ${scheme.value || 'of the system'}`}
      onClick={() => (scheme.value = next)}>
      {{dark: '☾', light: '☀'}[scheme.value] ?? '◐'}
    </button>
  );
}

takeToken();
if (!location.hash) {
  go(routeTo('applications'), true);
}
void loadSettings()
  .catch(() => undefined)
  .then(() => {
    const root = document.getElementById('app');
    if (root) {
      render(<App />, root);
    }
  });
