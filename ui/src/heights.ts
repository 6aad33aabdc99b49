/** Heights of the rows of a list, and the top of each. A row that was never seen has an estimated height. */
export class Heights {
  #heights: number[] = [];
  #tops: number[] = [0];
  /** Tops are known up to this row. */
  #known = 0;

  constructor(readonly estimate: number) {}

  get count(): number {
    return this.#heights.length;
  }

  get total(): number {
    return this.top(this.count);
  }

  resize(count: number): void {
    while (this.#heights.length < count) {
      this.#heights.push(this.estimate);
    }
    this.#heights.length = count;
    this.#forget(count);
  }

  height(row: number): number {
    return this.#heights[row] ?? 0;
  }

  /** Returns whether that changed anything. */
  set(row: number, height: number): boolean {
    if (row >= this.count || this.#heights[row] === height) {
      return false;
    }
    this.#heights[row] = height;
    this.#forget(row);
    return true;
  }

  top(row: number): number {
    const end = Math.min(row, this.count);
    for (let at = this.#known; at < end; at += 1) {
      this.#tops[at + 1] = (this.#tops[at] ?? 0) + this.height(at);
    }
    this.#known = Math.max(this.#known, end);
    return this.#tops[end] ?? 0;
  }

  /** The row that covers a place: never one without height. */
  rowAt(y: number): number {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.top(middle + 1) <= y) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return Math.max(0, Math.min(low, this.count - 1));
  }

  #forget(row: number): void {
    this.#known = Math.min(this.#known, row);
  }
}
