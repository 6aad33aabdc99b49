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
    const added = Array.from({length: Math.max(0, count - this.count)}, () => this.estimate);
    this.#heights = [...this.#heights.slice(0, count), ...added];
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
