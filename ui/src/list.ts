/** The part of a long list that is in the page, and the place of each row. */

import {signal} from '@preact/signals';
import {Heights} from './heights.js';

/** Rows are made this far beyond what is seen. */
const OVERSCAN = 300;

/** The row at the top of what is seen, and how much of it is above. */
export interface Anchor {
  row: number;
  above: number;
}

export class ListModel {
  /** Rises when rows have moved. */
  readonly layout = signal(0);
  /** The first and the last row that are in the page. */
  readonly range = signal<[number, number]>([0, -1]);
  /** New rows at the end come into view. */
  readonly isFollowing = signal(false);
  readonly heights: Heights;
  anchor: Anchor = {row: 0, above: 0};
  #element: HTMLElement | null = null;
  #top = 0;
  readonly #observer = new ResizeObserver(entries => this.#measure(entries));

  constructor(
    estimate: number,
    readonly canFollow = false,
  ) {
    this.heights = new Heights(estimate);
  }

  attach(element: HTMLElement | null): () => void {
    this.#element = element;
    return element ? this.observe(element) : () => {};
  }

  observe(element: HTMLElement): () => void {
    this.#observer.observe(element);
    return () => this.#observer.unobserve(element);
  }

  resize(count: number): void {
    if (count !== this.heights.count) {
      this.heights.resize(count);
      this.layout.value += 1;
    }
  }

  /** Brings a row to the top of what is seen. */
  show(row: number, above = -8): void {
    this.isFollowing.value = false;
    this.anchor = {row, above};
    this.layout.value += 1;
  }

  follow(): void {
    this.isFollowing.value = true;
    this.layout.value += 1;
  }

  /** Moves what is seen to the anchor, after rows have got their heights. */
  settle(): void {
    const element = this.#element;
    if (element) {
      const end = this.heights.total - element.clientHeight;
      const {row, above} = this.anchor;
      // A row may have become smaller than what was above.
      const wanted = this.heights.top(row) + Math.min(above, this.heights.height(row));
      const top = Math.max(0, this.isFollowing.value ? end : Math.min(end, wanted));
      if (Math.abs(element.scrollTop - top) >= 1) {
        element.scrollTop = top;
      }
      this.#seek(element);
    }
  }

  scrolled(): void {
    const element = this.#element;
    if (element && Math.abs(element.scrollTop - this.#top) >= 1) {
      const row = this.heights.rowAt(element.scrollTop);
      this.anchor = {row, above: element.scrollTop - this.heights.top(row)};
      const rest = this.heights.total - element.scrollTop - element.clientHeight;
      this.isFollowing.value = this.canFollow && rest < 4;
      this.#seek(element);
    }
  }

  #seek({scrollTop, clientHeight}: HTMLElement): void {
    this.#top = scrollTop;
    const first = this.heights.rowAt(scrollTop - OVERSCAN);
    const last = this.heights.rowAt(scrollTop + clientHeight + OVERSCAN);
    if (first !== this.range.value[0] || last !== this.range.value[1]) {
      this.range.value = [first, last];
    }
  }

  #measure(entries: ResizeObserverEntry[]): void {
    let isMoved = false;
    for (const {target} of entries) {
      const {dataset, offsetHeight} = target as HTMLElement;
      // A list in a pane that is not shown has no heights.
      const isRow = dataset['row'] !== undefined && offsetHeight > 0;
      const isChange = isRow && this.heights.set(Number(dataset['row']), offsetHeight);
      isMoved ||= isChange || target === this.#element;
    }
    if (isMoved) {
      this.layout.value += 1;
    }
  }
}
