package dev.sessiond.adk;

import org.jspecify.annotations.Nullable;

/** The request breaks a rule or a limit. {@link FailedCall#violations} names every field. */
public final class SessiondInvalidException extends SessiondException {

  SessiondInvalidException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }
}
