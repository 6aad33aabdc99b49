package dev.sessiond.adk;

import org.jspecify.annotations.Nullable;

/**
 * The server could not be reached or could not serve the call, and the retries are used up. A write
 * may have been applied; an append of the same event can be called again.
 */
public final class SessiondUnavailableException extends SessiondException {

  SessiondUnavailableException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }
}
