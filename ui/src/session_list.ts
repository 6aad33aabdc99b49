/** A list of sessions: its pages, and the last messages of those that are seen. */

import {signal} from '@preact/signals';
import {TEXT, call, isAbort, messageOf} from './api.js';
import {readBody, summaryOf} from './body.js';
import type {Session} from './contract.js';
import {href, type Route} from './route.js';

const PAGE_SIZE = 200;
/** Pages that are read to find a place. */
const JUMP_PAGE_SIZE = 1000;
/** Lists that Back finds as they were. */
const MAX_LISTS = 4;
/** Browsers open six connections to a host. */
const MAX_PREVIEWS = 3;
const PREVIEW_EVENTS = 4;

export class SessionList {
  readonly sessions = signal<Session[]>([]);
  readonly hasMore = signal(true);
  readonly error = signal('');
  readonly readAt = signal(0);
  /** Last messages, by `nameOf`. */
  readonly previews = signal(new Map<string, string>());
  #pageToken = '';
  #abort = new AbortController();
  #reading: Promise<void> | undefined;
  #wanted: Session[] = [];
  #previewing = 0;

  constructor(readonly route: Route) {}

  reload(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.sessions.value = [];
    this.previews.value = new Map();
    this.#pageToken = '';
    this.hasMore.value = true;
    this.readAt.value = 0;
    this.#reading = undefined;
    void this.read();
  }

  /** Reads the next page. Calls meanwhile wait for the same one. */
  read(pageSize = PAGE_SIZE): Promise<void> {
    this.#reading ??= this.#readPage(pageSize).finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** Reads on until there are as many sessions. */
  async readTo(count: number): Promise<void> {
    while (this.sessions.value.length < count && this.hasMore.value && !this.error.value) {
      await this.read(count > PAGE_SIZE ? JUMP_PAGE_SIZE : PAGE_SIZE);
    }
  }

  /** Reads on until there is a session on the other side of a time. Returns its row. */
  async rowAt(time: number): Promise<number> {
    const isBeyond = ({lastEventTime = ''}: Session) =>
      this.route.oldestFirst
        ? Date.parse(lastEventTime) >= time
        : Date.parse(lastEventTime) <= time;
    for (;;) {
      const count = this.sessions.value.length;
      const row = this.sessions.value.findIndex(isBeyond);
      if (row >= 0 || !this.hasMore.value || this.error.value) {
        return row >= 0 ? row : Math.max(0, count - 1);
      }
      await this.readTo(count + 1);
    }
  }

  /** Reads the last messages of these sessions. Others that did not begin are forgotten. */
  preview(sessions: Session[]): void {
    this.#wanted = sessions.filter(session => !this.previews.value.has(nameOf(session)));
    while (this.#previewing < MAX_PREVIEWS && this.#wanted.length > this.#previewing) {
      this.#previewing += 1;
      void this.#previewNext().finally(() => (this.#previewing -= 1));
    }
  }

  async #readPage(pageSize: number): Promise<void> {
    const {appName, userId, labels, oldestFirst} = this.route;
    const order = `SESSION_ORDER_LAST_EVENT_TIME_${oldestFirst ? 'ASC' : 'DESC'}` as const;
    const filter = Object.fromEntries(labels.map(label => label.split(/=(.*)/s, 2)));
    const request = {appName, userId, labels: filter, order, pageSize, pageToken: this.#pageToken};
    const abort = this.#abort.signal;
    try {
      const page = this.hasMore.value
        ? await call('SessionService/ListSessions', request, abort)
        : {};
      this.sessions.value = [...this.sessions.value, ...(page.sessions ?? [])];
      this.#pageToken = page.nextPageToken ?? '';
      this.hasMore.value = this.#pageToken !== '';
      this.readAt.value ||= Date.now();
      this.error.value = '';
    } catch (error) {
      this.error.value = isAbort(error) ? '' : messageOf(error);
    }
  }

  async #previewNext(): Promise<void> {
    for (let next = this.#wanted.shift(); next; next = this.#wanted.shift()) {
      const text = await lastMessage(next, this.#abort.signal).catch(() => '');
      this.previews.value = new Map(this.previews.value).set(nameOf(next), text);
    }
  }
}

async function lastMessage({key = {}}: Session, abort: AbortSignal): Promise<string> {
  const request = {key, pageSize: PREVIEW_EVENTS, descending: true, ...TEXT};
  const {events = []} = await call('EventService/ListEvents', request, abort);
  const said = events.map(({author, bodyJson}) => [author, summaryOf(readBody(bodyJson))]);
  return said.find(([, text]) => text)?.join(': ') ?? '';
}

/** Tells sessions of an application apart. */
export function nameOf({key}: Session): string {
  return JSON.stringify([key?.userId, key?.sessionId]);
}

/** The lists that were looked at last. */
const lists = new Map<string, SessionList>();

export function listOf(route: Route): SessionList {
  const name = href(route);
  const list = lists.get(name) ?? new SessionList(route);
  lists.delete(name);
  lists.set(name, list);
  for (const old of [...lists.keys()].slice(0, -MAX_LISTS)) {
    lists.delete(old);
  }
  return list;
}

/** Nothing of one caller is shown to the next one. */
export function forgetLists(): void {
  lists.clear();
}
