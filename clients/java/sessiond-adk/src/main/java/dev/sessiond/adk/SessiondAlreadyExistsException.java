package dev.sessiond.adk;

import org.jspecify.annotations.Nullable;

/** The session id, the event id or the request id is taken. */
public final class SessiondAlreadyExistsException extends SessiondException {

  SessiondAlreadyExistsException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }
}
