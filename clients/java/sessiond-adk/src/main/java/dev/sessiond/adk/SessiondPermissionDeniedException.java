package dev.sessiond.adk;

import org.jspecify.annotations.Nullable;

/** The server knows the caller, who may not do this. */
public final class SessiondPermissionDeniedException extends SessiondException {

  SessiondPermissionDeniedException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }
}
