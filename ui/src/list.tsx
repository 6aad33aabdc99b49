/** A list that has only the rows that are seen in the page, however many there are. */

import {signal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useLayoutEffect, useRef} from 'preact/hooks';

/** Rows are made this far beyond what is seen. */
const OVERSCAN = 300;

/** Heights of the rows of a list, and their tops. A row that was never seen has an estimate. */
export class Heights {
  #heights: number[] = [];
  #tops: number[] | undefined;

  constructor(readonly estimate: number) {}

  get count(): number {
    return this.#heights.length;
  }

  get total(): number {
    return this.top(this.count);
  }

  resize(count: number): void {
    const before = this.count;
    this.#heights.length = count;
    this.#heights.fill(this.estimate, before);
    this.#tops = undefined;
  }

  height(row: number): number {
    return this.#heights[row] ?? 0;
  }

  /** Returns whether that changed anything. */
  set(row: number, height: number): boolean {
    const isChange = row < this.count && this.#heights[row] !== height;
    if (isChange) {
      this.#heights[row] = height;
      this.#tops = undefined;
    }
    return isChange;
  }

  /** Gives these rows no height, and all others theirs again. */
  fold(isFolded: (row: number) => boolean): void {
    this.#heights = this.#heights.map((height, row) =>
      isFolded(row) ? 0 : height || this.estimate,
    );
    this.#tops = undefined;
  }

  top(row: number): number {
    if (!this.#tops) {
      let sum = 0;
      this.#tops = [0, ...this.#heights.map(height => (sum += height))];
    }
    return this.#tops[Math.min(row, this.count)] ?? 0;
  }

  /** The row that covers a place: never one without height. */
  rowAt(y: number): number {
    let [low, high] = [0, Math.max(0, this.count - 1)];
    while (low < high) {
      const middle = (low + high) >> 1;
      [low, high] = this.top(middle + 1) <= y ? [middle + 1, high] : [low, middle];
    }
    return low;
  }
}

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

  attach(element: HTMLElement): () => void {
    this.#element = element;
    return this.observe(element);
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

  fold(isFolded: (row: number) => boolean): void {
    this.heights.fold(isFolded);
    this.layout.value += 1;
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

  scrolled({currentTarget}: {currentTarget: HTMLElement}): void {
    const {scrollTop, clientHeight} = currentTarget;
    if (Math.abs(scrollTop - this.#top) >= 1) {
      const row = this.heights.rowAt(scrollTop);
      this.anchor = {row, above: scrollTop - this.heights.top(row)};
      const rest = this.heights.total - scrollTop - clientHeight;
      this.isFollowing.value = this.canFollow && rest < 4;
      this.#seek(currentTarget);
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

interface ListProps {
  list: ListModel;
  count: number;
  row: (row: number) => ComponentChildren;
  role: 'feed' | 'rowgroup';
  label: string;
  onKeyDown?: (event: KeyboardEvent) => void;
}

export function List({list, count, row, role, label, onKeyDown}: ListProps) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => list.attach(element.current as HTMLElement), [list]);
  useLayoutEffect(() => list.resize(count), [list, count]);
  // After each layout, when the page has the height of all rows.
  useLayoutEffect(() => list.settle());
  void list.layout.value;
  const {heights, range} = list;
  const [first, last] = range.value;
  const all = Array.from({length: Math.min(last + 1, count) - first}, (_, at) => first + at);
  const style = {height: `${heights.total}px`};
  return (
    <div class="list" ref={element} onScroll={event => list.scrolled(event)}>
      <div class="list-all" {...{style, role, onKeyDown}} aria-label={label}>
        {all
          .filter(at => heights.height(at) > 0)
          .map(at => (
            <Row key={at} {...{list, at}}>
              {row(at)}
            </Row>
          ))}
      </div>
    </div>
  );
}

function Row({list, at, children}: {list: ListModel; at: number; children: ComponentChildren}) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => list.observe(element.current as HTMLElement), [list]);
  const its = {'data-row': at, style: {top: `${list.heights.top(at)}px`}};
  return (
    <div class="list-row" role="presentation" ref={element} {...its}>
      {children}
    </div>
  );
}
