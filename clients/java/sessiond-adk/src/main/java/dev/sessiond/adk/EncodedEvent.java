package dev.sessiond.adk;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.sessions.State;
import com.google.common.base.Strings;
import dev.sessiond.v1.StateDelta;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * An event as it is sent.
 *
 * <p>The body is the event's own JSON in the canonical form, complete except for {@code
 * actions.stateDelta}, which is sent as the typed delta.
 *
 * @param message the message, with its operations
 * @param delta what the event's delta was, {@code temp:} keys included
 * @param values the JSON of the values that it sets ({@code temp:} keys only if they are shared)
 * @param removed the keys that it removes
 */
record EncodedEvent(
    dev.sessiond.v1.Event message,
    Map<String, Object> delta,
    Map<String, JsonNode> values,
    List<String> removed) {

  private static final ObjectMapper MAPPER = Json.kitMapper();

  /**
   * Encodes {@code event}, which has an id, and does not change it.
   *
   * @throws StateValueException a value of the delta has no JSON form, or a key has half a
   *     surrogate pair
   * @throws IllegalArgumentException the body has no JSON form, the time is out of range, or an id
   *     has half a surrogate pair
   */
  static EncodedEvent of(Event event, List<Operation> operations, boolean shareTemp) {
    EventActions actions = event.actions() == null ? new EventActions() : event.actions();
    // A copy: tools of a parallel branch may write on.
    Map<String, Object> delta = new LinkedHashMap<>(actions.stateDelta());
    Map<String, JsonNode> values = new LinkedHashMap<>();
    List<String> removed = new ArrayList<>();
    Mender mender = new Mender();
    delta.forEach(
        (key, value) -> {
          if (Messages.isTemp(key) && !shareTemp) {
            return;
          }
          if (value == State.REMOVED) {
            removed.add(key);
          } else {
            values.put(key, Json.encode(key, value, mender));
          }
        });
    StateDelta.Builder changes = Messages.delta(values, removed, operations, mender);
    dev.sessiond.v1.Event message =
        dev.sessiond.v1.Event.newBuilder()
            .setEventId(Messages.requireText("event.id", event.id()))
            .setInvocationId(text("event.invocationId", event.invocationId()))
            .setAuthor(text("event.author", event.author()))
            .setBranch(text("event.branch", event.branch().orElse("")))
            .setEventTime(Messages.timestamp(Instant.ofEpochMilli(event.timestamp())))
            .setStateDelta(changes)
            .setBodyJson(mender.mend("the body", body(event, actions)))
            .build();
    mender.warn("event " + event.id());
    return new EncodedEvent(message, delta, values, removed);
  }

  private static String text(String name, @Nullable String value) {
    return Messages.requireText(name, Strings.nullToEmpty(value));
  }

  private static String body(Event event, EventActions actions) {
    EventActions withoutDelta = actions.toBuilder().stateDelta(Map.of()).build();
    try {
      ObjectNode tree = MAPPER.valueToTree(event.toBuilder().actions(withoutDelta).build());
      ((ObjectNode) tree.get("actions")).remove("stateDelta");
      CanonicalBody.write(tree);
      return MAPPER.writeValueAsString(tree);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("Event " + event.id() + " has no JSON form.", e);
    }
  }

  /**
   * Whether {@code other} would store the same: {@code temp:} keys and operations are not stored.
   */
  boolean isStoredAs(EncodedEvent other) {
    return message.getBodyJson().equals(other.message.getBodyJson())
        && withoutTemp(values).equals(withoutTemp(other.values));
  }

  private static Map<String, JsonNode> withoutTemp(Map<String, JsonNode> values) {
    Map<String, JsonNode> kept = new LinkedHashMap<>(values);
    kept.keySet().removeIf(Messages::isTemp);
    return kept;
  }
}
