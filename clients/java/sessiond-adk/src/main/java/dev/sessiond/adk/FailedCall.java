package dev.sessiond.adk;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.io.Serializable;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The status of a failed call with its details.
 *
 * @param code the gRPC status code
 * @param message the server's message
 * @param reason the server's reason, such as {@code STATE_TOO_LARGE} (see docs/errors.md of the
 *     project); "" if the transport failed, not the server
 * @param metadata the variable parts of the message, lists as JSON arrays
 * @param violations for an invalid request, every fault with the path of its field
 * @param retryAfter the delay that the server asks for
 * @param attempts how often the call was sent; after more than one attempt, an earlier one may have
 *     been applied
 */
public record FailedCall(
    Status.Code code,
    String message,
    String reason,
    Map<String, String> metadata,
    List<Violation> violations,
    @Nullable Duration retryAfter,
    int attempts)
    implements Serializable {

  static final String DOMAIN = "sessiond";

  /** A fault of an invalid request. */
  public record Violation(String field, String description) implements Serializable {}

  /** Whether the same call may be sent again. */
  enum Retryable {
    YES,
    /** Only with the same event or request id, which every call of this package has. */
    SAME_ID,
    NO
  }

  public FailedCall {
    metadata = Map.copyOf(metadata);
    violations = List.copyOf(violations);
  }

  static FailedCall of(Status.Code code, String message, String reason, int attempts) {
    return new FailedCall(code, message, reason, Map.of(), List.of(), null, attempts);
  }

  /** Reads the status of a failed call. Details that cannot be decoded are ignored. */
  static FailedCall of(Throwable failure, int attempts) {
    Status status = Status.fromThrowable(failure);
    String message = status.getDescription() == null ? "" : status.getDescription();
    String reason = "";
    Map<String, String> metadata = Map.of();
    List<Violation> violations = List.of();
    Duration retryAfter = null;
    try {
      com.google.rpc.Status details = StatusProto.fromThrowable(failure);
      for (Any detail : details == null ? List.<Any>of() : details.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo info = detail.unpack(ErrorInfo.class);
          if (info.getDomain().equals(DOMAIN)) {
            reason = info.getReason();
            metadata = info.getMetadataMap();
          }
        } else if (detail.is(RetryInfo.class)) {
          com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
          retryAfter = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
        } else if (detail.is(BadRequest.class)) {
          violations =
              detail.unpack(BadRequest.class).getFieldViolationsList().stream()
                  .map(one -> new Violation(one.getField(), one.getDescription()))
                  .toList();
        }
      }
    } catch (InvalidProtocolBufferException | IllegalArgumentException e) {
      // A proxy may have damaged the details. The caller still needs the status itself.
      message = message + " (undecodable details)";
    }
    return new FailedCall(
        isLostConnection(status, reason) ? Status.Code.UNAVAILABLE : status.getCode(),
        message,
        reason,
        metadata,
        violations,
        retryAfter,
        attempts);
  }

  /** A connection that breaks while gRPC writes to it is reported as UNKNOWN. */
  private static boolean isLostConnection(Status status, String reason) {
    return reason.isEmpty()
        && status.getCode() == Status.Code.UNKNOWN
        && status.getCause() instanceof IOException;
  }

  Retryable retryable() {
    if (reason.isEmpty()) {
      // A status of the transport. If the connection was lost, the call may have been applied.
      return code == Status.Code.UNAVAILABLE ? Retryable.SAME_ID : Retryable.NO;
    }
    return switch (metadata.getOrDefault("retryable", "no")) {
      case "yes" -> Retryable.YES;
      case "same_id" -> Retryable.SAME_ID;
      // A value that a newer server adds must not cause retries.
      default -> Retryable.NO;
    };
  }

  /** The message of an exception: the server's, the other violations, and the reason. */
  String summary() {
    StringBuilder text = new StringBuilder(message);
    // The server's message describes the first violation only.
    violations.stream()
        .skip(1)
        .forEach(
            one -> text.append("; ").append(one.field()).append(": ").append(one.description()));
    return text.append(" [").append(reason.isEmpty() ? code.name() : reason).append(']').toString();
  }
}
