/** An open session: what is known of it, and the watch that keeps it current. */

import {batch, signal} from '@preact/signals';
import {TEXT, call, isAbort, messageOf} from './api.js';
import type {Address, Event, Scope, Session, WatchResponse} from './contract.js';
import {EventLog} from './log.js';
import {follow, watchState} from './watch.js';

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
  readonly log: EventLog;
  #stopWatch = () => {};
  readonly #abort = new AbortController();

  constructor(readonly address: Address) {
    this.log = new EventLog(address, () => this.shown.value);
  }

  async open(): Promise<void> {
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

  /** Reads what a watch does not tell: name, labels, expiration. */
  async load(): Promise<void> {
    try {
      const request = {key: this.address, withoutState: true};
      const answer = await call('SessionService/GetSession', request, this.#abort.signal);
      this.#take(answer.session ?? {});
    } catch (error) {
      if (!isAbort(error) && !this.session.value) {
        this.error.value = messageOf(error);
      }
    }
  }

  pause(isPaused: boolean): void {
    batch(() => {
      this.isPaused.value = isPaused;
      if (!isPaused && this.shown.value < this.newest.value) {
        // A rewind may be among what was missed.
        this.log.clear();
        this.#show();
      }
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
      this.error.value = '';
      this.session.value = session;
      this.#grow(Number(session.lastSequence ?? 0));
    });
  }

  #receive(message: WatchResponse): void {
    batch(() => {
      if (message.event) {
        this.#append(message.event);
      }
      if (message.stateChange && !this.isPaused.value) {
        this.stateVersion.value += 1;
      }
    });
    if (message.caughtUp || message.heartbeat) {
      void this.load();
    }
  }

  #append(event: Event): void {
    const sequence = Number(event.sequence);
    if (!this.isPaused.value) {
      this.log.put(event);
    }
    this.#grow(sequence);
  }

  #grow(newest: number): void {
    this.newest.value = Math.max(newest, this.newest.value);
    if (!this.isPaused.value) {
      this.#show();
    }
  }

  #show(): void {
    if (this.shown.value < this.newest.value) {
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
