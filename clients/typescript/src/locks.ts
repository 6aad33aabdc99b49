/** Locks per object: one append or refresh of a session object at a time, so that its events keep the stored order. */

export class ObjectLocks {
  readonly #last = new WeakMap<object, Promise<unknown>>();

  /** Runs `task` after all earlier ones of `target`. A failure does not affect the next. */
  hold<T>(target: object, task: () => Promise<T>): Promise<T> {
    const earlier = this.#last.get(target) ?? Promise.resolve();
    const result = earlier.then(task);
    this.#last.set(
      target,
      result.catch(() => {}),
    );
    return result;
  }
}
