package dev.sessiond.adk;

import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * What every exception of a failed call has, also {@link SessiondNotFoundException}, which extends
 * ADK's own exception.
 */
public interface SessiondFailure {

  /** The status of the failed call, with the server's reason. */
  FailedCall call();

  /** Finds the failed call among {@code throwable} and its causes. */
  static Optional<FailedCall> find(@Nullable Throwable throwable) {
    // Bounded, as causes may form a circle.
    Throwable candidate = throwable;
    for (int depth = 0;
        candidate != null && depth < 32;
        depth++, candidate = candidate.getCause()) {
      if (candidate instanceof SessiondFailure failure) {
        return Optional.of(failure.call());
      }
    }
    return Optional.empty();
  }
}
