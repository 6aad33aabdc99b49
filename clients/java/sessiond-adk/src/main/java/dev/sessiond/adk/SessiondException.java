package dev.sessiond.adk;

import com.google.adk.sessions.SessionException;
import org.jspecify.annotations.Nullable;

/** A call to sessiond failed. {@link #call} has the status and the server's reason. */
public class SessiondException extends SessionException implements SessiondFailure {

  private final FailedCall call;

  SessiondException(FailedCall call, @Nullable Throwable cause) {
    super(call.summary(), cause);
    this.call = call;
  }

  @Override
  public FailedCall call() {
    return call;
  }
}
