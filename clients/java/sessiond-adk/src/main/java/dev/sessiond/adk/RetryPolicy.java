package dev.sessiond.adk;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/**
 * How often a call is sent, and how long to wait between attempts.
 *
 * <p>Delays double from {@code firstDelay} up to {@code maxDelay}. Each is reduced at random by up
 * to one half, so that the clients of a restarted server do not return all at once. The call's
 * deadline ends the retries. {@code attempts} can end them earlier.
 *
 * @param attempts the largest number of attempts, at least 1; {@link Integer#MAX_VALUE} leaves the
 *     end to the deadline
 */
public record RetryPolicy(int attempts, Duration firstDelay, Duration maxDelay) {

  /** Retries until the deadline; delays from 50 ms, doubling up to 1 s. */
  public static final RetryPolicy DEFAULT =
      new RetryPolicy(Integer.MAX_VALUE, Duration.ofMillis(50), Duration.ofSeconds(1));

  public RetryPolicy {
    if (attempts < 1) {
      throw new IllegalArgumentException("attempts is " + attempts + ". It must be at least 1.");
    }
    if (firstDelay.isNegative() || maxDelay.isNegative()) {
      throw new IllegalArgumentException("A delay is negative: " + firstDelay + ", " + maxDelay);
    }
    // Without delays, a call would spin until its deadline.
    if (attempts == Integer.MAX_VALUE && (firstDelay.isZero() || maxDelay.isZero())) {
      throw new IllegalArgumentException(
          "Neither attempts nor delays are limited. Set attempts, or positive delays.");
    }
  }

  /** The delay after {@code failed} attempts, at least the one that the server requested. */
  Duration delay(int failed, @Nullable Duration requested) {
    // The exponent is bounded, so that the product stays within a long.
    double doubled = firstDelay.toNanos() * Math.pow(2, Math.min(failed - 1, 32));
    long longest = (long) Math.min(doubled, maxDelay.toNanos());
    Duration delay =
        Duration.ofNanos(
            longest - (long) (longest / 2.0 * ThreadLocalRandom.current().nextDouble()));
    return requested == null || requested.compareTo(delay) < 0 ? delay : requested;
  }
}
