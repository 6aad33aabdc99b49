/**
 * The events of a session that are at hand. Others are fetched as they come into view, and dropped when
 * they are far from it: a session may have 100,000.
 *
 * Sequences are dense, so any range can be fetched by itself.
 */

import {signal} from '@preact/signals';
import {TEXT, call, isAbort, messageOf} from './api.js';
import type {Address, Event} from './contract.js';

const PAGE_SIZE = 60;
/** Fetched beyond what is seen. */
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
  /** Rises when runs of hidden events become known, with all of them. */
  readonly runs = signal<HiddenRun[]>([]);
  readonly error = signal('');
  showsRewound = false;
  #events = new Map<number, Event>();
  #characters = 0;
  #seen: [number, number] = [1, 1];
  #abort = new AbortController();
  #isFetching = false;

  constructor(
    readonly address: Address,
    /** The newest sequence that is shown. */
    readonly last: () => number,
  ) {}

  get(sequence: number): Event | undefined {
    return this.#events.get(sequence);
  }

  /** The run that hides an event, if the caller does not want to see it. */
  runOf(sequence: number): HiddenRun | undefined {
    const hides = ({first, last}: HiddenRun) => first <= sequence && sequence <= last;
    return this.showsRewound ? undefined : this.runs.value.find(hides);
  }

  /** Fetches what is missing of a range. */
  see(first: number, last: number): void {
    this.#seen = [first, last];
    if (!this.#isFetching) {
      this.#isFetching = true;
      void this.#fetchSeen().finally(() => {
        this.#isFetching = false;
      });
    }
  }

  /** Adds an event that a watch has brought. */
  put(event: Event): void {
    if (event.rewindToSequence !== undefined) {
      // It hides some events, and may bring others back.
      this.clear();
    }
    this.#store(event);
    this.#evict();
    this.version.value += 1;
  }

  clear(): void {
    this.#events.clear();
    this.#characters = 0;
    this.runs.value = [];
    this.version.value += 1;
  }

  close(): void {
    this.#abort.abort();
  }

  /** One event, from the server unless it is at hand. */
  async load(sequence: number): Promise<Event | undefined> {
    const refs = [{sequence: String(sequence)}];
    const request = {key: this.address, refs, ...TEXT};
    const found = this.get(sequence);
    return found ?? (await call('EventService/BatchGetEvents', request)).events?.[0];
  }

  async #fetchSeen(): Promise<void> {
    try {
      for (let from = this.#firstMissing(); from; from = this.#firstMissing()) {
        const events = await this.#list(from - 1, PAGE_SIZE, true);
        if (events.length === 0) {
          return;
        }
        events.forEach(event => this.#store(event));
        await this.#noteHidden(events);
        this.#evict();
        this.error.value = '';
        this.version.value += 1;
      }
    } catch (error) {
      if (!isAbort(error)) {
        this.error.value = messageOf(error);
      }
    }
  }

  #firstMissing(): number | undefined {
    const [first, last] = this.#seen;
    const end = Math.min(last + MARGIN, this.last());
    for (let at = Math.max(1, first - MARGIN); at <= end; at += 1) {
      const run = this.runOf(at);
      if (run && at < run.last) {
        at = run.last - 1;
      } else if (!run && !this.#events.has(at)) {
        return at;
      }
    }
    return undefined;
  }

  async #list(after: number, pageSize: number, includeRewound: boolean): Promise<Event[]> {
    const selection = {afterSequence: String(after), includeRewound};
    const request = {key: this.address, pageSize, selection, ...TEXT};
    for (let pageToken = ''; ;) {
      const page = await call(
        'EventService/ListEvents',
        {...request, pageToken},
        this.#abort.signal,
      );
      pageToken = page.nextPageToken ?? '';
      if (page.events?.length || !pageToken) {
        return page.events ?? [];
      }
    }
  }

  /** Finds the ends of the runs that these events belong to. */
  async #noteHidden(events: Event[]): Promise<void> {
    for (const event of this.showsRewound ? [] : [...events].reverse()) {
      const sequence = Number(event.sequence);
      const isKnown = this.runs.value.some(run => run.first <= sequence && sequence <= run.last);
      if (!event.rewound || isKnown) {
        continue;
      }
      let first = Number(event.rewindToSequence ?? sequence - 1) + 1;
      let last = await this.#lastHidden(first);
      if (last < sequence) {
        // A later rewind has brought some of them back.
        first = sequence;
        last = await this.#lastHidden(first);
      }
      const others = this.runs.value.filter(run => run.last < first || run.first > last);
      this.runs.value = [...others, {first, last}];
    }
  }

  /** The event before the next one that is not hidden. */
  async #lastHidden(first: number): Promise<number> {
    const [next] = await this.#list(first - 1, 1, false);
    return next ? Number(next.sequence) - 1 : this.last();
  }

  #store(event: Event): void {
    const sequence = Number(event.sequence);
    this.#characters += lengthOf(event) - lengthOf(this.#events.get(sequence));
    this.#events.set(sequence, event);
  }

  /** Drops the events that are farthest from what is seen. */
  #evict(): void {
    if (this.#events.size <= MAX_EVENTS && this.#characters <= MAX_CHARACTERS) {
      return;
    }
    const [first, last] = this.#seen;
    const distance = (sequence: number) => Math.max(first - sequence, sequence - last);
    const sequences = [...this.#events.keys()].sort((a, b) => distance(b) - distance(a));
    for (const sequence of sequences) {
      const isFar = distance(sequence) > MARGIN;
      const isFull = this.#events.size > MAX_EVENTS / 2 || this.#characters > MAX_CHARACTERS / 2;
      if (!isFar || !isFull) {
        return;
      }
      this.#characters -= lengthOf(this.#events.get(sequence));
      this.#events.delete(sequence);
    }
  }
}

function lengthOf(event: Event | undefined): number {
  return (event?.bodyJson?.length ?? 0) + (event?.stateDelta?.setJson?.length ?? 0);
}
