/**
 * Deadlines and retries of a call.
 *
 * The server decides whether a call may be sent again (`Status.retryable`). A
 * retry sends the same request, with the same ids, so this module treats `yes`
 * and `same_id` alike: an append carries its event id, an update its request
 * id, and a new session a chosen id with a label of the creating call. A
 * deletion by an address has no such id: if its response is lost, the retry also
 * deletes a session that was created under the same id in between.
 */

/**
 * How often a call is sent, and how long to wait between attempts.
 *
 * Delays double from `firstDelayMs` up to `maxDelayMs`. Each is reduced at
 * random by up to one half, so that the clients of a restarted server do not
 * return all at once. The call's deadline ends the retries. `attempts` can end
 * them earlier.
 */
export interface RetryPolicy {
  /** Maximum number of attempts. Default: no maximum. */
  readonly attempts?: number;
  /** Default: 50. */
  readonly firstDelayMs?: number;
  /** Default: 1000. */
  readonly maxDelayMs?: number;
}

/** A retry policy with all of its values. */
export class Backoff {
  readonly attempts: number;
  readonly #firstDelayMs: number;
  readonly #maxDelayMs: number;

  /** @throws RangeError: no attempt, a negative delay, or neither a maximum of attempts nor delays. */
  constructor(policy: RetryPolicy = {}) {
    this.attempts = policy.attempts ?? Infinity;
    this.#firstDelayMs = policy.firstDelayMs ?? 50;
    this.#maxDelayMs = policy.maxDelayMs ?? 1000;
    if (!(this.attempts >= 1)) {
      throw new RangeError(
        `attempts is ${this.attempts}. It must be at least 1.`,
      );
    }
    for (const delay of [this.#firstDelayMs, this.#maxDelayMs]) {
      if (!(delay >= 0)) {
        throw new RangeError(`A delay is ${delay}. It must not be negative.`);
      }
    }
    // Without delays, a call would spin until its deadline.
    if (
      this.attempts === Infinity &&
      !(this.#firstDelayMs > 0 && this.#maxDelayMs > 0)
    ) {
      throw new RangeError(
        'Neither attempts nor delays are limited. Set attempts, or positive delays.',
      );
    }
  }

  /** The delay after `failed` attempts (1 or more), at least the one that the server asks for. */
  delayMs(failed: number, requestedMs = 0): number {
    const longest = Math.min(
      this.#firstDelayMs * 2 ** Math.min(failed - 1, 32),
      this.#maxDelayMs,
    );
    return Math.max(longest * (0.5 + Math.random() / 2), requestedMs);
  }
}
