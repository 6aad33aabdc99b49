package dev.sessiond.adk;

import org.jspecify.annotations.Nullable;

/** The server does not accept the token or the certificate, or misses it. */
public final class SessiondUnauthenticatedException extends SessiondException {

  SessiondUnauthenticatedException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }
}
