/** An open session: what is known of it, what is selected, and the watch that keeps it current. */

import {batch, computed, signal} from '@preact/signals';
import {TEXT, attempt, call, isReadOnly, mayWrite, pages} from './api.js';
import type {Address, Scope, Session, WatchResponse} from './contract.js';
import {ListModel} from './list.js';
import {EventLog} from './log.js';
import {go, route, type Route} from './route.js';
import {follow, watchState} from './watch.js';

/** The estimated height of an event. Rows are measured once they are seen. */
const ROW_HEIGHT = 96;

/** A change that waits for its confirmation. */
export interface Change {
  kind: 'fork' | 'rewind' | 'delete';
  sequence: number;
}

export class SessionModel {
  /** The session without its state. */
  readonly session = signal<Session>();
  readonly error = signal('');
  /** The newest event that exists. */
  readonly newest = signal(0);
  /** While paused: the newest event that is shown. */
  readonly pausedAt = signal<number | undefined>(undefined);
  readonly shown = computed(() => this.pausedAt.value ?? this.newest.value);
  /** Changes of state that are no event. */
  readonly changes = signal(0);
  /** Rises when the state may have changed. */
  readonly stateVersion = computed(() => this.shown.value + this.changes.value);
  /** The event that is selected; nothing: now. */
  readonly at = signal(route.value.at);
  readonly asked = signal<Change | undefined>(undefined);
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
    this.log.clear();
  }

  /** Whether changes are offered. */
  get mayChange(): boolean {
    return this.#canWrite.value && !isReadOnly.value && watchState.value !== 'gone';
  }

  /** The function that opens the dialog of a change, or `false` if it is not offered. */
  ask(kind: Change['kind'], sequence = this.shown.value) {
    return this.mayChange && (() => (this.asked.value = {kind, sequence}));
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

  /** Selects an event. Scrolls only if it is not in the page. */
  pick(sequence: number): void {
    const [first, last] = this.list.range.value;
    const {row, above} = this.list.anchor;
    this.select(sequence);
    if (first < sequence && sequence <= last + 1) {
      this.list.show(row, above);
    }
  }

  /** Changes the address. The old one gets the selected event first, so that Back leads to it. */
  go(change: Partial<Route>, replace = false): void {
    const now = {...route.value, at: this.at.value};
    go(now, true);
    go({...now, ...change}, replace);
  }

  /** Shows the event with an id, or that there is none. */
  async goToEvent(eventId: string): Promise<void> {
    const request = {key: this.address, refs: [{eventId}]};
    const found = call('EventService/BatchGetEvents', request, this.#abort.signal);
    const event = (await found.catch(() => undefined))?.events?.[0];
    if (!this.#abort.signal.aborted) {
      const place = {at: Number(event?.sequence), ...(event?.rewound && {rewound: true})};
      this.go({event: undefined, ...(event ? place : {find: eventId})}, true);
    }
  }

  /** Reads what a watch does not tell: name, labels, expiration. */
  async load(): Promise<void> {
    const error = signal('');
    const request = {key: this.address, withoutState: true};
    await attempt(error, async () => {
      const answer = await call('SessionService/GetSession', request, this.#abort.signal);
      this.#take(answer.session ?? {});
    });
    this.error.value = this.session.value ? '' : error.value;
  }

  pause(isPaused: boolean): void {
    batch(() => {
      this.pausedAt.value = isPaused ? this.newest.value : undefined;
      if (!isPaused) {
        // What was missed may contain a rewind and changes of shared state.
        this.log.clear();
        this.changes.value += 1;
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
      this.session.value = session;
      this.#grow(session.lastSequence);
    });
  }

  #receive({event, stateChange, caughtUp, heartbeat}: WatchResponse): void {
    batch(() => {
      if (this.pausedAt.value === undefined) {
        this.changes.value += stateChange ? 1 : 0;
        if (event) {
          this.log.put(event);
        }
      }
      this.#grow(event?.sequence);
    });
    if (caughtUp || heartbeat) {
      void this.load();
    }
  }

  #grow(sequence = '0'): void {
    this.newest.value = Math.max(Number(sequence), this.newest.value);
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

/** Everything visible from a scope now, in the form of a session's state. */
export async function stateNow(scope: Scope, abort?: AbortSignal): Promise<Session> {
  const members: string[] = [];
  const all = {versions: {}, uid: '', stateOmitted: false, damagedKeys: new Set<string>()};
  const request = {scope, includeVersions: true, ...TEXT};
  for await (const page of pages('StateService/GetState', request, abort)) {
    const {stateJson = '{}', versions, uid = '', stateOmitted = false, damagedKeys = []} = page;
    members.push(stateJson.trim().slice(1, -1).trim());
    Object.assign(all.versions, versions);
    all.uid = uid;
    all.stateOmitted ||= stateOmitted;
    damagedKeys.forEach(key => all.damagedKeys.add(key));
  }
  const stateJson = `{${members.filter(Boolean).join(',')}}`;
  return {...all, stateJson, damagedKeys: [...all.damagedKeys]};
}
