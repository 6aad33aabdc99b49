package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.adk.sessions.State;
import com.google.protobuf.Timestamp;
import dev.sessiond.v1.SessionKey;
import dev.sessiond.v1.StateDelta;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Parts of messages: keys, times, deltas. */
final class Messages {

  /** The range of google.protobuf.Timestamp: the years 1 to 9999. */
  static final Instant EARLIEST = Instant.parse("0001-01-01T00:00:00Z");

  static final Instant LATEST = Instant.parse("9999-12-31T23:59:59.999999999Z");

  private Messages() {}

  static boolean isTemp(String key) {
    return key.startsWith(State.TEMP_PREFIX);
  }

  /** The id without surrounding white space, as ADK trims it; "" for null. */
  static String trimmed(@Nullable String sessionId) {
    return sessionId == null ? "" : sessionId.trim();
  }

  /**
   * The full key of a session.
   *
   * @throws IllegalArgumentException a part is empty; the server would look up a bare session id
   *     among the sessions of all users
   */
  static SessionKey key(String appName, String userId, String sessionId) {
    requireNonEmpty("appName", appName);
    requireNonEmpty("userId", userId);
    requireNonEmpty("sessionId", sessionId);
    return SessionKey.newBuilder()
        .setAppName(appName)
        .setUserId(userId)
        .setSessionId(sessionId)
        .build();
  }

  static void requireNonEmpty(String name, @Nullable String value) {
    if (value == null || value.isEmpty()) {
      throw new IllegalArgumentException(name + " is empty.");
    }
  }

  /**
   * A time on the wire.
   *
   * @throws IllegalArgumentException outside the years 1 to 9999
   */
  static Timestamp timestamp(Instant time) {
    if (time.isBefore(EARLIEST) || time.isAfter(LATEST)) {
      throw new IllegalArgumentException(time + " is outside the years 1 to 9999.");
    }
    return Timestamp.newBuilder()
        .setSeconds(time.getEpochSecond())
        .setNanos(time.getNano())
        .build();
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  /** A JSON object as text. */
  static String join(Map<String, JsonNode> members) {
    ObjectNode object = Json.object();
    members.forEach(object::set);
    return Json.write(object);
  }

  /** Writes encoded values, removed keys and operations. */
  static StateDelta.Builder delta(
      Map<String, JsonNode> values, Iterable<String> removed, List<Operation> operations) {
    StateDelta.Builder delta = StateDelta.newBuilder().addAllRemove(removed);
    if (!values.isEmpty()) {
      delta.setSetJson(join(values));
    }
    operations.forEach(operation -> operation.addTo(delta));
    return delta;
  }
}
