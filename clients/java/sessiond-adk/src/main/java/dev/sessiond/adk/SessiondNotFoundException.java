package dev.sessiond.adk;

import com.google.adk.sessions.SessionNotFoundException;
import org.jspecify.annotations.Nullable;

/** The session does not exist. */
public final class SessiondNotFoundException extends SessionNotFoundException
    implements SessiondFailure {

  private final FailedCall call;

  SessiondNotFoundException(FailedCall call, @Nullable Throwable cause) {
    super(call.summary(), cause);
    this.call = call;
  }

  @Override
  public FailedCall call() {
    return call;
  }
}
