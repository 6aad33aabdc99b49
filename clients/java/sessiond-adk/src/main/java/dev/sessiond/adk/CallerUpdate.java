package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import dev.sessiond.v1.AppendEventResponse;
import java.time.Instant;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** What an append does to the caller's objects: at the subscription, and after the response. */
record CallerUpdate(
    Session session,
    Event event,
    List<Operation> operations,
    EncodedEvent encoded,
    Tracked tracked,
    Overlay.Change change) {

  CallerUpdate(
      Session session,
      Event event,
      List<Operation> operations,
      EncodedEvent encoded,
      Tracked tracked) {
    this(session, event, operations, encoded, tracked, new Overlay.Change(event, encoded.delta()));
  }

  String newestEventId() {
    return tracked.overlay.newestEventId(session);
  }

  /** Shows the event and its delta in the session. */
  void show() {
    tracked.overlay.show(session, change);
  }

  /** Undoes {@link #show} after a failure or a cancellation. */
  void takeBack() {
    tracked.overlay.takeBack(session, change);
  }

  /**
   * Updates the objects to what is stored. With {@code readAt}, the session was read there and
   * advances no further than its own events: a replay can be answered long after others have
   * appended, and must not hide their events from the next append.
   */
  void apply(AppendEventResponse response, @Nullable Long readAt) {
    synchronized (tracked.overlay) {
      applyLocked(response, readAt);
    }
  }

  private void applyLocked(AppendEventResponse response, @Nullable Long readAt) {
    dev.sessiond.v1.Session stored = response.getSession();
    long sequence = response.getEvent().getSequence();
    long reached = stored.getLastSequence();
    boolean contained = false;
    if (readAt != null) {
      reached = sequence == readAt + 1 ? sequence : readAt;
      contained = sequence <= readAt;
    }
    boolean current = reached == stored.getLastSequence();
    // Otherwise, the session contains the event already, or events before it are missing.
    boolean advances = current || (!contained && reached == sequence);
    boolean shown = false;
    if (contained || !advances) {
      takeBack();
    } else {
      shown = tracked.overlay.settle(change);
    }
    addResults(response);
    moveTemp();
    if (tracked.uid.isEmpty()) {
      tracked.uid = stored.getUid();
    }
    if (!advances) {
      return;
    }
    if (current && stored.hasStateJson()) {
      applyState(StoredValue.of(stored), shown);
    } else {
      applyOwnDelta(response);
    }
    tracked.sequence = reached;
    if (!contained) {
      tracked.overlay.add(session, event);
    }
    session.lastUpdateTime(
        current
            ? Messages.instant(stored.getLastEventTime())
            : Instant.ofEpochMilli(event.timestamp()));
  }

  /** Makes the event's delta equal to the stored one for the keys of its operations. */
  private void addResults(AppendEventResponse response) {
    if (operations.isEmpty()) {
      return;
    }
    Map<String, Object> stored = EventDecoder.decodeDelta(response.getEvent().getStateDelta());
    for (Operation operation : operations) {
      Object value = stored.get(operation.key());
      if (value != null) {
        event.actions().stateDelta().put(operation.key(), value);
      } else if (!Messages.isTemp(operation.key())) {
        // The operation removed a new key that the event itself had set.
        event.actions().stateDelta().remove(operation.key());
      }
    }
  }

  /** {@code temp:} keys move from the event into the session, for the rest of the invocation. */
  private void moveTemp() {
    encoded
        .delta()
        .forEach(
            (key, value) -> {
              if (Messages.isTemp(key)) {
                event.actions().stateDelta().remove(key);
                put(key, value);
              }
            });
  }

  /**
   * Brings the state up to what the server has.
   *
   * <ul>
   *   <li>A key that this event wrote keeps the caller's object, unless the server has another
   *       value.
   *   <li>A key that others have changed or removed follows them.
   *   <li>A value that the agent has set and not committed stays: tools write into this map before
   *       their event is appended, and the append of another branch must not undo that.
   *   <li>{@code temp:} keys stay.
   * </ul>
   */
  private void applyState(Map<String, StoredValue> stored, boolean shown) {
    Map<String, StoredValue> after = new HashMap<>();
    Set<String> own = new HashSet<>(encoded.values().keySet());
    own.addAll(encoded.removed());
    operations.forEach(operation -> own.add(operation.key()));
    Set<String> keys = new HashSet<>(stored.keySet());
    keys.addAll(tracked.stored.keySet());
    keys.addAll(own);
    for (String key : keys) {
      StoredValue before = tracked.stored.get(key);
      StoredValue now = stored.get(key);
      if (Messages.isTemp(key)) {
        if (now != null && !encoded.values().containsKey(key)) {
          put(key, Json.value(now.value()));
        }
        continue;
      }
      boolean changed = own.contains(key) || !Objects.equals(before, now);
      boolean asWritten =
          now == null
              ? encoded.removed().contains(key)
              : now.value().equals(encoded.values().get(key));
      if (changed && isUncommitted(key, before == null ? null : before.value(), shown)) {
        if (!asWritten) {
          // The next conflict check must still see the value that the agent has based its own on.
          now = before;
        }
      } else if (asWritten) {
        put(key, encoded.delta().get(key));
      } else if (changed) {
        put(key, now == null ? State.REMOVED : Json.value(now.value()));
      }
      if (now != null) {
        after.put(key, now);
      }
    }
    tracked.stored = after;
  }

  /**
   * Whether the agent has written a key of the session object and not sent it with this event.
   *
   * @param before the stored value that the object knows of
   * @param shown whether the session had this event's delta before the response
   */
  private boolean isUncommitted(String key, @Nullable JsonNode before, boolean shown) {
    Object here = tracked.overlay.value(session, key);
    if (tracked.sequence == Tracked.UNKNOWN || here == encoded.delta().get(key)) {
      // Nothing is known about the object, so the server decides; or the value is this event's.
      return false;
    }
    if (here == null) {
      boolean hadValue =
          (before != null && !before.isNull()) || (shown && encoded.values().containsKey(key));
      return hadValue && !encoded.removed().contains(key);
    }
    try {
      JsonNode local = Json.encode(key, here, new Mender());
      return !local.equals(before) && !local.equals(encoded.values().get(key));
    } catch (StateValueException e) {
      return true;
    }
  }

  /** The response has no state (for one, if it is too large). The event's changes are known. */
  private void applyOwnDelta(AppendEventResponse response) {
    Map<String, StoredValue> stored = new HashMap<>(tracked.stored);
    EventDecoder.decodeDelta(response.getEvent().getStateDelta())
        .forEach(
            (key, value) -> {
              Object sent = encoded.delta().get(key);
              put(key, encoded.values().containsKey(key) ? sent : value);
              stored.remove(key);
            });
    Json.members(response.getEvent().getStateDelta().getSetJson())
        .forEach((key, value) -> stored.put(key, new StoredValue(value, null)));
    tracked.stored = stored;
  }

  private void put(String key, @Nullable Object value) {
    tracked.overlay.write(session, key, value);
  }
}
