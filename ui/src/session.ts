/** An open session: what is known of it, what is selected, and the watch that keeps it current. */

import {batch, signal} from '@preact/signals';
import {TEXT, call, isAbort, isReadOnly, messageOf} from './api.js';
import type {Address, Event, Scope, Session, WatchResponse} from './contract.js';
import {ListModel} from './list.js';
import {EventLog} from './log.js';
import {mayWrite} from './rights.js';
import {go, route, type Route} from './route.js';
import {follow, watchState} from './watch.js';

/** A usual event. Rows are measured once they are seen. */
const ROW_HEIGHT = 96;

/** A change that waits for its confirmation. */
type Task =
  | {kind: 'fork' | 'rewind' | 'delete'; sequence: number}
  | {kind: 'edit'; key: string; seen: Session};

export class SessionModel {
  /** Without state. */
  readonly session = signal<Session>();
  readonly error = signal('');
  /** The newest event that exists, and the newest that is shown: they differ while paused. */
  readonly newest = signal(0);
  readonly shown = signal(0);
  readonly isPaused = signal(false);
  /** Rises when the state may have changed. */
  readonly stateVersion = signal(0);
  /** The event that is selected; nothing: now. */
  readonly at = signal(route.value.at);
  readonly task = signal<Task | undefined>(undefined);
  readonly list = new ListModel(ROW_HEIGHT, true);
  readonly log: EventLog;
  readonly #canWrite = signal(false);
  readonly #abort = new AbortController();
  #stopWatch = () => {};

  constructor(readonly address: Address) {
    this.log = new EventLog(address, () => this.shown.value);
  }

  async open(): Promise<void> {
    void mayWrite(this.address).then(may => (this.#canWrite.value = may));
    await this.load();
    if (this.session.value && !this.#abort.signal.aborted) {
      this.#stopWatch = follow(this.address, message => this.#receive(message));
    }
  }

  close(): void {
    this.#stopWatch();
    this.#abort.abort();
    this.log.close();
  }

  /** Whether changes are offered. */
  get mayChange(): boolean {
    return this.#canWrite.value && !isReadOnly.value && watchState.value !== 'gone';
  }

  /** Selects an event and brings it into view; nothing: now. */
  select(at: number | undefined): void {
    this.at.value = at;
    if (at === undefined) {
      this.list.follow();
    } else {
      this.list.show(Math.max(0, at - 1), -40);
    }
  }

  /** Selects an event. Nothing moves if it is in the page. */
  pick(sequence: number): void {
    const [first, last] = this.list.range.value;
    const {row, above} = this.list.anchor;
    this.select(sequence);
    if (first < sequence && sequence <= last + 1) {
      this.list.show(row, above);
    }
  }

  /** Changes the address. Back leads to what is selected now. */
  go(change: Partial<Route>, replace = false): void {
    const now = {...route.value, at: this.at.value};
    go(now, true);
    go({...now, ...change}, replace);
  }

  /** Reads what a watch does not tell: name, labels, expiration. */
  async load(): Promise<void> {
    try {
      const request = {key: this.address, withoutState: true};
      const answer = await call('SessionService/GetSession', request, this.#abort.signal);
      this.#take(answer.session ?? {});
    } catch (error) {
      this.error.value = isAbort(error) || this.session.value ? '' : messageOf(error);
    }
  }

  pause(isPaused: boolean): void {
    batch(() => {
      this.isPaused.value = isPaused;
      if (!isPaused && this.shown.value < this.newest.value) {
        // A rewind may be among what was missed.
        this.log.clear();
      }
      this.#grow(0);
    });
  }

  #take(session: Session): void {
    const uid = this.session.value?.uid;
    if (uid && uid !== session.uid) {
      this.#stopWatch();
      watchState.value = 'gone';
      return;
    }
    batch(() => {
      this.session.value = session;
      this.#grow(Number(session.lastSequence ?? 0));
    });
  }

  #receive({event, stateChange, caughtUp, heartbeat}: WatchResponse): void {
    batch(() => {
      this.#append(event);
      this.stateVersion.value += stateChange && !this.isPaused.value ? 1 : 0;
    });
    if (caughtUp || heartbeat) {
      void this.load();
    }
  }

  #append(event: Event | undefined): void {
    if (event && !this.isPaused.value) {
      this.log.put(event);
    }
    this.#grow(Number(event?.sequence ?? 0));
  }

  #grow(newest: number): void {
    this.newest.value = Math.max(newest, this.newest.value);
    if (!this.isPaused.value && this.shown.value < this.newest.value) {
      this.shown.value = this.newest.value;
      this.stateVersion.value += 1;
    }
  }
}

/** The session at one point of time, with its state. */
export async function sessionAt(
  address: Address,
  at: number | undefined,
  abort?: AbortSignal,
): Promise<Session> {
  const asOf = at === undefined ? {} : {asOfSequence: String(at)};
  const request = {key: address, includeVersions: true, ...asOf, ...TEXT};
  return (await call('SessionService/GetSession', request, abort)).session ?? {};
}

/** Everything visible from a scope now, page by page, in the form of a session's state. */
export async function wholeState(scope: Scope, abort?: AbortSignal): Promise<Session> {
  const members: string[] = [];
  const versions: Record<string, string> = {};
  let uid = '';
  let pageToken = '';
  do {
    const request = {scope, includeVersions: true, pageToken, ...TEXT};
    const page = await call('StateService/GetState', request, abort);
    members.push((page.stateJson ?? '{}').trim().slice(1, -1));
    Object.assign(versions, page.versions);
    uid = page.uid ?? uid;
    pageToken = page.nextPageToken ?? '';
  } while (pageToken);
  const stateJson = `{${members.filter(text => text.trim()).join(',')}}`;
  return {stateJson, versions, uid, stateOmitted: false};
}
