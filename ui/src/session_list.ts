/** A list of sessions: its pages, and the last messages of those that are seen. */

import {signal} from '@preact/signals';
import {TEXT, call, isAbort, messageOf} from './api.js';
import {summaryOf} from './body.js';
import type {Session, SessionKey} from './contract.js';
import {bodyOf} from './pairs.js';
import {href, type Sessions} from './route.js';

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
  readonly pageToken = signal('');
  readonly error = signal('');
  readonly readAt = signal(0);
  /** Last messages by address. */
  readonly previews = signal(new Map<string, string>());
  #abort = new AbortController();
  #reading: Promise<void> | undefined;
  #wanted: Session[] = [];
  #previewing = 0;

  constructor(readonly route: Sessions) {}

  get hasMore(): boolean {
    return this.readAt.value === 0 || this.pageToken.value !== '';
  }

  reload(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.sessions.value = [];
    this.previews.value = new Map();
    this.pageToken.value = '';
    this.readAt.value = 0;
    this.#reading = undefined;
    void this.read();
  }

  /** Reads the next page. Calls meanwhile wait for the same one. */
  read(pageSize = PAGE_SIZE): Promise<void> {
    this.#reading ??= this.#readPage(pageSize).finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #readPage(pageSize: number): Promise<void> {
    const {appName, userId, labels, oldestFirst} = this.route;
    const order = oldestFirst
      ? 'SESSION_ORDER_LAST_EVENT_TIME_ASC'
      : 'SESSION_ORDER_LAST_EVENT_TIME_DESC';
    const filter = Object.fromEntries(labels.map(label => label.split(/=(.*)/s, 2)));
    const pageToken = this.pageToken.value;
    const request = {appName, userId, labels: filter, order, pageSize, pageToken} as const;
    const abort = this.#abort.signal;
    try {
      const page = this.hasMore ? await call('SessionService/ListSessions', request, abort) : {};
      this.sessions.value = [...this.sessions.value, ...(page.sessions ?? [])];
      this.pageToken.value = page.nextPageToken ?? '';
      this.readAt.value ||= Date.now();
      this.error.value = '';
    } catch (error) {
      this.error.value = isAbort(error) ? '' : messageOf(error);
    }
  }

  /** Reads on until there are as many sessions. */
  async readTo(count: number): Promise<void> {
    while (this.sessions.value.length < count && this.hasMore && !this.error.value) {
      await this.read(JUMP_PAGE_SIZE);
    }
  }

  /** Reads on until there is a session on the other side of a time. Returns its row. */
  async rowAt(time: number): Promise<number> {
    const isBeyond = ({lastEventTime}: Session) =>
      this.route.oldestFirst
        ? Date.parse(lastEventTime ?? '') >= time
        : Date.parse(lastEventTime ?? '') <= time;
    for (;;) {
      const row = this.sessions.value.findIndex(isBeyond);
      if (row >= 0 || !this.hasMore || this.error.value) {
        return row >= 0 ? row : this.sessions.value.length - 1;
      }
      await this.read(JUMP_PAGE_SIZE);
    }
  }

  /** Reads the last messages of these sessions. Those that were asked for before and did not begin are forgotten. */
  preview(sessions: Session[]): void {
    this.#wanted = sessions.filter(session => !this.previews.value.has(nameOf(session.key)));
    while (this.#previewing < MAX_PREVIEWS && this.#wanted.length > 0) {
      this.#previewing += 1;
      void this.#previewNext().finally(() => (this.#previewing -= 1));
    }
  }

  async #previewNext(): Promise<void> {
    for (let next = this.#wanted.shift(); next; next = this.#wanted.shift()) {
      const text = await lastMessage(next, this.#abort.signal).catch(() => '');
      this.previews.value = new Map(this.previews.value).set(nameOf(next.key), text);
    }
  }
}

async function lastMessage({key}: Session, abort: AbortSignal): Promise<string> {
  const request = {key: key ?? {}, pageSize: PREVIEW_EVENTS, descending: true, ...TEXT};
  const {events = []} = await call('EventService/ListEvents', request, abort);
  const texts = events.map(event => `${event.author ?? ''}: ${summaryOf(bodyOf(event))}`);
  return texts.find(text => !text.endsWith(': ')) ?? '';
}

export function nameOf(key: SessionKey | undefined): string {
  return JSON.stringify([key?.userId, key?.sessionId]);
}

/** The lists that were looked at last. */
const lists = new Map<string, SessionList>();

export function listOf(route: Sessions): SessionList {
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
