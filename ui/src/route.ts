/** The page's addresses. They are fragments: ids reach neither logs nor other servers by them. */

import {computed, signal} from '@preact/signals';
import type {Address} from './contract.js';

export type View = 'applications' | 'sessions' | 'users' | 'state' | 'session';

/** A view and the thing that it shows. Ids that a view does not need are empty. */
export interface Route extends Address {
  view: View;
  /** Filters of sessions: `name=value`. */
  labels: string[];
  oldestFirst: boolean;
  /** The event that is selected, by its sequence; 0: as created. */
  at?: number | undefined;
  /** The event that state is compared with. */
  base?: number | undefined;
  /** The event that is looked for, by its id. */
  event?: string | undefined;
  find?: string | undefined;
  /** The key whose history is shown. */
  key?: string | undefined;
  rewound: boolean;
}

const VIEWS = ['applications', 'sessions', 'users', 'state', 'session'];
const VALUES = ['at', 'base', 'event', 'find', 'key', 'oldestFirst', 'rewound'] as const;

const fragment = signal(location.hash);
export const route = computed(() => parseRoute(fragment.value));

for (const name of ['hashchange', 'popstate']) {
  addEventListener(name, () => (fragment.value = location.hash));
}

/** A route without filters and selections. */
export function routeTo(view: View, appName = '', userId = '', sessionId = ''): Route {
  return {...{view, appName, userId, sessionId}, labels: [], oldestFirst: false, rewound: false};
}

/** A session as of an event; without one, now. */
export function toSession(key: Partial<Address> = {}, at?: number): Route {
  return {...routeTo('session'), ...key, at};
}

/** Shows a route. `replace` leaves no entry for Back. */
export function go(to: Route, replace = false): void {
  if (replace) {
    // A place is kept only while the view is the same.
    const isSame = to.view === route.peek().view;
    history.replaceState(isSame ? history.state : null, '', href(to));
  } else {
    history.pushState(null, '', href(to));
  }
  fragment.value = location.hash;
}

/** Keeps a view's place in its entry of the history, so that Back finds it again. */
export function savePlace(place: unknown): void {
  history.replaceState({place}, '');
}

export function savedPlace<T>(): T | undefined {
  return (history.state as {place?: T} | null)?.place;
}

export function href(to: Route): string {
  const path = [to.view, to.appName, to.userId, to.sessionId].map(encodeURIComponent).join('/');
  const query = new URLSearchParams(to.labels.map(label => ['label', label]));
  for (const name of VALUES) {
    const value = to[name] ?? false;
    if (value !== false) {
      query.set(name, value === true ? '' : String(value));
    }
  }
  return `#/${path.replace(/\/+$/, '')}${query.size > 0 ? `?${query.toString()}` : ''}`;
}

export function parseRoute(hash: string): Route {
  const [, path = '', search = ''] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  const [view = '', appName, userId, sessionId] = path.split('/').map(decode);
  const query = new URLSearchParams(search);
  const text = (name: string) => query.get(name) ?? undefined;
  const number = (name: string) => {
    return /^\d{1,15}$/.test(text(name) ?? '') ? Number(text(name)) : undefined;
  };
  const isWhole = view === 'session' ? appName && userId && sessionId : appName;
  if (!VIEWS.includes(view) || !isWhole) {
    return routeTo('applications');
  }
  return {
    ...routeTo(view as View, appName, userId, sessionId),
    labels: query.getAll('label').filter(label => label.includes('=')),
    ...{oldestFirst: query.has('oldestFirst'), rewound: query.has('rewound')},
    ...{at: number('at'), base: number('base')},
    ...{event: text('event'), find: text('find'), key: text('key')},
  };
}

/** The text of a part of an address, also of one that is written wrongly. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
