package dev.sessiond.adk;

import dev.sessiond.v1.SessionKey;
import io.grpc.Status;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Exceptions of failed calls: by reason for conflicts, otherwise by code. */
final class Errors {

  /** The reason of a write whose session was deleted and created anew. */
  static final String REPLACED = "SESSION_REPLACED";

  private Errors() {}

  static RuntimeException of(FailedCall call, @Nullable Throwable cause) {
    if (call.reason().equals("KEY_CONFLICT") || call.reason().equals(REPLACED)) {
      return new SessiondStaleException(call, cause);
    }
    if (call.reason().equals("SEQUENCE_CONFLICT")) {
      return stale(
          call.metadata().getOrDefault("expected", "?"),
          call.metadata().getOrDefault("actual", "?"),
          call.attempts(),
          cause);
    }
    return switch (call.code()) {
      case NOT_FOUND -> new SessiondNotFoundException(call, cause);
      case ALREADY_EXISTS -> new SessiondAlreadyExistsException(call, cause);
      case INVALID_ARGUMENT -> new SessiondInvalidException(call, cause);
      case UNAVAILABLE -> new SessiondUnavailableException(call, cause);
      case DEADLINE_EXCEEDED -> new SessiondDeadlineException(call, cause);
      case UNAUTHENTICATED -> new SessiondUnauthenticatedException(call, cause);
      case PERMISSION_DENIED -> new SessiondPermissionDeniedException(call, cause);
      default -> new SessiondException(call, cause);
    };
  }

  /** The error of a session object at sequence {@code expected} while the server is at another. */
  static SessiondStaleException stale(
      String expected, String actual, int attempts, @Nullable Throwable cause) {
    String message =
        "The session has been modified in storage since it was loaded (expected sequence "
            + expected
            + ", found "
            + actual
            + "). Reload it before appending more events.";
    Map<String, String> metadata = Map.of("expected", expected, "actual", actual);
    return new SessiondStaleException(
        new FailedCall(
            Status.Code.ABORTED, message, "SEQUENCE_CONFLICT", metadata, List.of(), null, attempts),
        cause);
  }

  /** The error of a read that found another life of the session id. */
  static SessiondStaleException replaced(SessionKey key) {
    String message =
        String.format(
            "Session '%s' of user '%s' in application '%s' was deleted and created anew. Read it"
                + " again.",
            key.getSessionId(), key.getUserId(), key.getAppName());
    return new SessiondStaleException(
        FailedCall.of(Status.Code.ABORTED, message, REPLACED, 1), null);
  }

  /** The error of a read of past state that does not fit into a response. */
  static SessiondException pastTooLarge(SessionKey key, long sequence) {
    String message =
        String.format(
            "The state of session '%s' as of event %d does not fit into a response.",
            key.getSessionId(), sequence);
    return new SessiondException(
        FailedCall.of(Status.Code.RESOURCE_EXHAUSTED, message, "ANSWER_TOO_LARGE", 1), null);
  }

  /** The error of a read that found nothing. */
  static SessiondNotFoundException notFound(SessionKey key) {
    String message =
        String.format(
            "There is no session '%s' of user '%s' in application '%s'.",
            key.getSessionId(), key.getUserId(), key.getAppName());
    return new SessiondNotFoundException(
        FailedCall.of(Status.Code.NOT_FOUND, message, "SESSION_NOT_FOUND", 1), null);
  }

  static SessiondClosedException closed(int attempts, @Nullable Throwable cause) {
    return new SessiondClosedException(
        FailedCall.of(Status.Code.CANCELLED, "The service is closed.", "", attempts), cause);
  }
}
