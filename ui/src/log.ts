/**
 * The events of a session that are at hand. Others are fetched as they come into view, and dropped
 * when they are far from it: a session may have 100,000.
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
  /** Runs of hidden events that are known. */
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

  /** The run that hides an event. */
  runOf(sequence: number): HiddenRun | undefined {
    return this.runs.value.find(({first, last}) => first <= sequence && sequence <= last);
  }

  /** Fetches what is missing of a range. */
  see(first: number, last: number): void {
    this.#seen = [first, last];
    if (!this.#isFetching) {
      this.#isFetching = true;
      void this.#fetchSeen().finally(() => (this.#isFetching = false));
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

  async #fetchSeen(): Promise<void> {
    try {
      for (let from = this.#firstMissing(); from; from = this.#firstMissing()) {
        const events = await this.#list(from - 1, PAGE_SIZE, true);
        events.forEach(event => this.#store(event));
        await this.#noteHidden(events);
        this.#evict();
        this.error.value = '';
        this.version.value += 1;
        if (events.length === 0) {
          return;
        }
      }
    } catch (error) {
      this.error.value = isAbort(error) ? '' : messageOf(error);
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

  /** Finds the runs that these events belong to. */
  async #noteHidden(events: Event[]): Promise<void> {
    for (const event of this.showsRewound ? [] : [...events].reverse()) {
      const sequence = Number(event.sequence);
      if (!event.rewound || this.runOf(sequence)) {
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

  /** Drops the events that are farthest from what is seen, half of them at once. */
  #evict(): void {
    const isBeyond = (part: number) =>
      this.#events.size > MAX_EVENTS * part || this.#characters > MAX_CHARACTERS * part;
    if (!isBeyond(1)) {
      return;
    }
    const [first, last] = this.#seen;
    const distance = (sequence: number) => Math.max(first - sequence, sequence - last);
    const far = [...this.#events.keys()].filter(sequence => distance(sequence) > MARGIN);
    for (const sequence of far.sort((a, b) => distance(b) - distance(a))) {
      if (isBeyond(0.5)) {
        this.#characters -= lengthOf(this.#events.get(sequence));
        this.#events.delete(sequence);
      }
    }
  }
}

function lengthOf(event: Event | undefined): number {
  return (event?.bodyJson?.length ?? 0) + (event?.stateDelta?.setJson?.length ?? 0);
}
