package dev.sessiond.adk;

import org.jspecify.annotations.Nullable;

/**
 * The deadline expired. A write may have been applied; an append of the same event can be called
 * again.
 */
public final class SessiondDeadlineException extends SessiondException {

  SessiondDeadlineException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }
}
