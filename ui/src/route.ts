/** The page's addresses. They are fragments: ids reach neither logs nor other servers by them. */

import {computed, signal} from '@preact/signals';
import type {Address} from './contract.js';

export interface Applications {
  view: 'applications';
}
/** The sessions of an application, filtered. */
export interface Sessions {
  view: 'sessions';
  appName: string;
  userId: string;
  /** `key=value`. */
  labels: string[];
  oldestFirst: boolean;
}
export interface Users {
  view: 'users';
  appName: string;
}
/** The state of an application, or of a user. */
export interface SharedState {
  view: 'state';
  appName: string;
  userId: string;
  /** The key whose history is shown. */
  key?: string | undefined;
}
export interface SessionRoute extends Address {
  view: 'session';
  /** The event that is selected, by its sequence; 0: as created. */
  at?: number | undefined;
  /** The event that state is compared with. */
  base?: number | undefined;
  /** The event that is looked for, by its id. */
  event?: string | undefined;
  find?: string | undefined;
  key?: string | undefined;
  rewound?: boolean | undefined;
}
export type Route = Applications | Sessions | Users | SharedState | SessionRoute;

const fragment = signal(location.hash);
export const route = computed(() => parseRoute(fragment.value));

for (const name of ['hashchange', 'popstate']) {
  addEventListener(name, () => {
    fragment.value = location.hash;
  });
}

/** Shows a route. `replace` leaves no entry for Back. */
export function go(to: Route, replace = false): void {
  if (replace) {
    history.replaceState(history.state, '', href(to));
  } else {
    history.pushState(null, '', href(to));
  }
  fragment.value = location.hash;
}

/** What a view keeps in its entry of the history, so that Back finds it again. */
export function savePlace(place: unknown): void {
  history.replaceState({place}, '');
}

export function savedPlace<T>(): T | undefined {
  return (history.state as {place?: T} | null)?.place;
}

/** All sessions of an application, or of one of its users. */
export function sessionsOf(appName: string, userId = ''): Sessions {
  return {view: 'sessions', appName, userId, labels: [], oldestFirst: false};
}

export function href(to: Route): string {
  const query = new URLSearchParams();
  const put = (name: string, value: string | number | undefined) => {
    if (value !== undefined && value !== '') {
      query.append(name, String(value));
    }
  };
  const path = pathOf(to, put);
  const text = query.toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text && `?${text}`}`;
}

function pathOf(to: Route, put: (name: string, value: string | number | undefined) => void) {
  switch (to.view) {
    case 'applications':
      return [];
    case 'sessions':
      put('user', to.userId);
      to.labels.forEach(label => put('label', label));
      put('order', to.oldestFirst ? 'oldest' : '');
      return ['app', to.appName];
    case 'users':
      return ['app', to.appName, 'users'];
    case 'state':
      put('user', to.userId);
      put('key', to.key);
      return ['app', to.appName, 'state'];
    case 'session':
      put('at', to.at);
      put('base', to.base);
      put('event', to.event);
      put('find', to.find);
      put('key', to.key);
      put('rewound', to.rewound ? '1' : '');
      return ['session', to.appName, to.userId, to.sessionId];
  }
}

export function parseRoute(hash: string): Route {
  const [, path = '', query = ''] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  const [kind, appName, second, third] = path.split('/').map(decode);
  const values = new URLSearchParams(query);
  const userId = values.get('user') ?? '';
  if (kind === 'session' && appName && second && third) {
    return sessionRoute({appName, userId: second, sessionId: third}, values);
  }
  if (kind !== 'app' || !appName) {
    return {view: 'applications'};
  }
  if (second === 'users') {
    return {view: 'users', appName};
  }
  if (second === 'state') {
    return {view: 'state', appName, userId, key: values.get('key') ?? undefined};
  }
  const oldestFirst = values.get('order') === 'oldest';
  const labels = values.getAll('label').filter(label => label.includes('='));
  return {view: 'sessions', appName, userId, labels, oldestFirst};
}

function sessionRoute(address: Address, values: URLSearchParams): SessionRoute {
  const number = (name: string) => {
    const text = values.get(name) ?? '';
    return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  };
  return {
    ...{view: 'session', ...address},
    ...{at: number('at'), base: number('base')},
    event: values.get('event') ?? undefined,
    find: values.get('find') ?? undefined,
    key: values.get('key') ?? undefined,
    rewound: values.get('rewound') === '1',
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
