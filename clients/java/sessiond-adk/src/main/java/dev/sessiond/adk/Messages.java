package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import com.google.common.base.Strings;
import com.google.protobuf.Timestamp;
import dev.sessiond.v1.Precondition;
import dev.sessiond.v1.SessionKey;
import dev.sessiond.v1.StateDelta;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
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

  /**
   * The full key of a session. Ids are sent as they are.
   *
   * @throws IllegalArgumentException a part is empty, as the server would look up a bare session id
   *     among the sessions of all users; or it has half a surrogate pair
   */
  static SessionKey key(String appName, String userId, String sessionId) {
    return SessionKey.newBuilder()
        .setAppName(requireId("appName", appName))
        .setUserId(requireId("userId", userId))
        .setSessionId(requireId("sessionId", sessionId))
        .build();
  }

  static SessionKey key(com.google.adk.sessions.SessionKey key) {
    return key(key.appName(), key.userId(), key.id());
  }

  static SessionKey key(Session session) {
    return key(session.appName(), session.userId(), session.id());
  }

  /**
   * The name of an event.
   *
   * @throws IllegalArgumentException the id is empty or has half a surrogate pair
   */
  static dev.sessiond.v1.EventRef ref(EventRef ref) {
    dev.sessiond.v1.EventRef.Builder named = dev.sessiond.v1.EventRef.newBuilder();
    if (ref instanceof EventRef.Id byId) {
      named.setEventId(requireId("eventId", byId.id()));
    } else if (ref instanceof EventRef.Sequence bySequence) {
      named.setSequence(bySequence.sequence());
    }
    return named.build();
  }

  static EventRef ref(dev.sessiond.v1.EventRef ref) {
    return ref.hasEventId()
        ? new EventRef.Id(ref.getEventId())
        : new EventRef.Sequence(ref.getSequence());
  }

  /** The condition that a write meets the life that {@code uid} names; empty if it is unknown. */
  static Optional<Precondition> life(String uid) {
    return uid.isEmpty()
        ? Optional.empty()
        : Optional.of(Precondition.newBuilder().setUid(uid).build());
  }

  /** A chosen id, or a new one for null and "". */
  static String idOrNew(@Nullable String sessionId) {
    return Strings.isNullOrEmpty(sessionId) ? UUID.randomUUID().toString() : sessionId;
  }

  static String requireId(String name, @Nullable String value) {
    if (Strings.isNullOrEmpty(value)) {
      throw new IllegalArgumentException(name + " is empty.");
    }
    return requireText(name, value);
  }

  /**
   * A text that names something. Replacing a part of it would name something else.
   *
   * @throws IllegalArgumentException it has half a surrogate pair
   */
  static String requireText(String name, String value) {
    if (!Json.isUnicode(value)) {
      throw new IllegalArgumentException(
          name + " contains half a surrogate pair, which UTF-8 cannot encode. Nothing was sent.");
    }
    return value;
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
      Map<String, JsonNode> values,
      Iterable<String> removed,
      List<Operation> operations,
      Mender mender) {
    StateDelta.Builder delta = StateDelta.newBuilder();
    removed.forEach(key -> delta.addRemove(Json.requireKey(key)));
    if (!values.isEmpty()) {
      delta.setSetJson(join(values));
    }
    operations.forEach(operation -> operation.addTo(delta, mender));
    return delta;
  }
}
