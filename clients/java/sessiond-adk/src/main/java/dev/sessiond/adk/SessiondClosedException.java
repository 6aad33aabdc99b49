package dev.sessiond.adk;

import org.jspecify.annotations.Nullable;

/** The service is closed, or was closed during the call. A write may have been applied. */
public final class SessiondClosedException extends SessiondException {

  SessiondClosedException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }
}
