/**
 * The events of a session that are at hand. Others are fetched as they come into view, and dropped
 * when they are far from it: a session may have 100,000.
 *
 * Sequences are dense, so any range can be fetched by itself, and events that an answer lacks are
 * hidden by a rewind.
 */

import {signal} from '@preact/signals';
import {TEXT, attempt, call, pages} from './api.js';
import type {Address, Event} from './contract.js';

const PAGE_SIZE = 60;
/** This many events are fetched before and after those that are seen. */
const MARGIN = 20;
const MAX_EVENTS = 3000;
const MAX_CHARACTERS = 48 << 20;

/** Events that a rewind hides, the marker of the rewind included. */
export interface HiddenRun {
  first: number;
  last: number;
}

export class EventLog {
  /** Rises when events arrive or go. */
  readonly version = signal(0);
  /** Runs of hidden events that are known. */
  readonly runs = signal<HiddenRun[]>([]);
  readonly error = signal('');
  showsRewound = false;
  #events = new Map<number, Event>();
  #seen: [number, number] = [1, 1];
  /** Stops the fetch that is under way. */
  #abort: AbortController | undefined;

  constructor(
    readonly address: Address,
    /** The newest sequence that is shown. */
    readonly last: () => number,
  ) {}

  get(sequence: number): Event | undefined {
    return this.#events.get(sequence);
  }

  /** The run that hides an event. */
  runOf(sequence: number): HiddenRun | undefined {
    return this.runs.value.find(({first, last}) => first <= sequence && sequence <= last);
  }

  /** Fetches what is missing of a range. */
  see(first: number, last: number): void {
    this.#seen = [first, last];
    if (!this.#abort) {
      const abort = new AbortController();
      this.#abort = abort;
      void attempt(this.error, () => this.#fetchSeen(abort.signal)).then(() => {
        this.#abort = this.#abort === abort ? undefined : this.#abort;
      });
    }
  }

  /** Adds an event that a watch has brought. */
  put(event: Event): void {
    if (event.rewindToSequence === undefined) {
      this.#add([event]);
    } else {
      // It hides some events, and may bring others back.
      this.clear();
    }
  }

  /** Forgets all events, and stops a fetch, which may bring what is no longer so. */
  clear(): void {
    this.#abort?.abort();
    this.#abort = undefined;
    this.#events.clear();
    this.runs.value = [];
    this.version.value += 1;
  }

  async #fetchSeen(abort: AbortSignal): Promise<void> {
    for (let from = this.#firstMissing(); from; from = this.#firstMissing()) {
      await this.#fetch(from, abort);
    }
  }

  #firstMissing(): number | undefined {
    const [first, last] = this.#seen;
    const end = Math.min(last + MARGIN, this.last());
    for (let at = Math.max(1, first - MARGIN); at <= end; at += 1) {
      const run = this.runOf(at);
      if (!run && !this.#events.has(at)) {
        return at;
      }
      at = run?.last ?? at;
    }
    return undefined;
  }

  /** Fetches some events from a sequence on. */
  async #fetch(from: number, abort: AbortSignal): Promise<void> {
    const last = this.last();
    const selection = {afterSequence: String(from - 1), includeRewound: this.showsRewound};
    const request = {key: this.address, pageSize: PAGE_SIZE, selection, ...TEXT};
    for await (const page of pages('EventService/ListEvents', request, abort)) {
      const {events = [], nextPageToken} = page;
      const first = Number(events[0]?.sequence ?? (nextPageToken ? from : last + 1));
      if (first > from) {
        this.#hide(await this.#firstHidden(from, first - 1, abort), first - 1);
      }
      let next = first;
      for (const event of events) {
        this.#hide(next, Number(event.sequence) - 1);
        next = Number(event.sequence) + 1;
      }
      this.#add(events);
      if (!nextPageToken) {
        this.#hide(next, last);
      }
      if (!nextPageToken || events.length > 0) {
        return;
      }
    }
  }

  /** The first event of a hidden run, which may be before those that are fetched. */
  async #firstHidden(from: number, last: number, abort: AbortSignal): Promise<number> {
    if (from === 1 || this.get(from - 1) || this.runOf(from - 1)) {
      return from;
    }
    const request = {key: this.address, refs: [{sequence: String(last)}]};
    const {events} = await call('EventService/BatchGetEvents', request, abort);
    return Math.min(from, Number(events?.[0]?.rewindToSequence ?? from) + 1);
  }

  #hide(first: number, last: number): void {
    if (first <= last) {
      const isApart = (run: HiddenRun) => run.last < first - 1 || last + 1 < run.first;
      const met = [{first, last}, ...this.runs.value.filter(run => !isApart(run))];
      const [start, end] = [met.map(run => run.first), met.map(run => run.last)];
      const whole = {first: Math.min(...start), last: Math.max(...end)};
      this.runs.value = [...this.runs.value.filter(isApart), whole];
    }
  }

  /** Keeps only what is near what is seen if all of it is too much. */
  #add(events: Event[]): void {
    events.forEach(event => this.#events.set(Number(event.sequence), event));
    let characters = 0;
    for (const {bodyJson = '', stateDelta} of this.#events.values()) {
      characters += bodyJson.length + (stateDelta?.setJson?.length ?? 0);
    }
    if (this.#events.size > MAX_EVENTS || characters > MAX_CHARACTERS) {
      const [first, last] = this.#seen;
      const isNear = (at: number) => first - MARGIN <= at && at <= last + MARGIN;
      this.#events = new Map([...this.#events].filter(([at]) => isNear(at)));
    }
    this.version.value += 1;
  }
}
