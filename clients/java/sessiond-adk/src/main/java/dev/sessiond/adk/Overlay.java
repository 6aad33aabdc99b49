package dev.sessiond.adk;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The changes of a session object's appends without a response, above what is known to be stored.
 *
 * <p>The object has an append's event and delta from the subscription on, as with ADK's own
 * services: the runner waits for the response, but an agent that has emitted an event may go on and
 * expects to find it in the session. A failed append is reverted. What others have appended or set
 * in the meantime stays, so every change remembers the value below it.
 */
final class Overlay {

  /** An append that may be shown. */
  static final class Change {
    private final Event event;
    private final Map<String, Object> delta;

    /** The value of each key below this change; null for a key without one. */
    private final Map<String, @Nullable Object> below = new HashMap<>();

    Change(Event event, Map<String, Object> delta) {
      this.event = event;
      this.delta = delta;
    }
  }

  /** In the order of the appends. */
  private final List<Change> pending = new ArrayList<>();

  /** Shows an append, unless the session has an event with its id, which is not stored again. */
  synchronized void show(Session session, Change change) {
    if (!add(session, change.event)) {
      return;
    }
    change.delta.forEach(
        (key, value) -> {
          change.below.put(key, session.state().get(key));
          set(session, key, value);
        });
    pending.add(change);
  }

  /** Takes a failed append back, once. A value that the agent has set since then stays. */
  synchronized void takeBack(Session session, Change change) {
    int position = pending.indexOf(change);
    if (position < 0) {
      return;
    }
    pending.remove(position);
    List<Change> above = pending.subList(position, pending.size());
    change.below.forEach(
        (key, value) -> {
          Change next = first(above, key);
          if (next != null) {
            next.below.put(key, value);
          } else if (session.state().get(key) == valueOf(change.delta.get(key))) {
            set(session, key, value);
          }
        });
    synchronized (session.events()) {
      // By identity, as another event may be equal; from the end, where it is.
      for (int i = session.events().size() - 1; i >= 0; i--) {
        if (session.events().get(i) == change.event) {
          session.events().remove(i);
          return;
        }
      }
    }
  }

  /** Makes an append part of what is stored. Answers whether it was shown until now. */
  synchronized boolean settle(Change change) {
    return pending.remove(change);
  }

  /** Adds an event, unless the session has one with its id. */
  boolean add(Session session, Event event) {
    synchronized (session.events()) {
      if (session.events().stream().anyMatch(other -> event.id().equals(other.id()))) {
        return false;
      }
      return session.events().add(event);
    }
  }

  /** The value of a key below all pending changes; null for none. */
  synchronized @Nullable Object value(Session session, String key) {
    Change change = first(pending, key);
    return change == null ? session.state().get(key) : change.below.get(key);
  }

  /** Sets a key below all pending changes, which still show their own value. */
  synchronized void write(Session session, String key, @Nullable Object value) {
    Change change = first(pending, key);
    if (change == null) {
      set(session, key, value);
    } else {
      change.below.put(key, valueOf(value));
    }
  }

  /** Replaces everything below the pending changes but the {@code temp:} keys. */
  synchronized void replace(Session session, Map<String, Object> values, Iterable<Event> events) {
    // In place: the contexts of an agent hold the map, not the session.
    Set<String> gone = new HashSet<>(session.state().keySet());
    pending.forEach(change -> gone.addAll(change.below.keySet()));
    gone.removeAll(values.keySet());
    gone.removeIf(Messages::isTemp);
    gone.forEach(key -> write(session, key, null));
    values.forEach((key, value) -> write(session, key, value));
    synchronized (session.events()) {
      session.events().clear();
      events.forEach(session.events()::add);
      pending.forEach(change -> add(session, change.event));
    }
  }

  /** The id of the newest event that has its response; "" for none. */
  synchronized String newestEventId(Session session) {
    synchronized (session.events()) {
      for (int i = session.events().size() - 1; i >= 0; i--) {
        Event event = session.events().get(i);
        if (pending.stream().noneMatch(change -> change.event == event)) {
          return event.id() == null ? "" : event.id();
        }
      }
      return "";
    }
  }

  private static @Nullable Change first(List<Change> changes, String key) {
    for (Change change : changes) {
      if (change.delta.containsKey(key)) {
        return change;
      }
    }
    return null;
  }

  private static @Nullable Object valueOf(@Nullable Object value) {
    return value == State.REMOVED ? null : value;
  }

  private static void set(Session session, String key, @Nullable Object value) {
    if (valueOf(value) == null) {
      session.state().remove(key);
    } else {
      session.state().put(key, value);
    }
  }
}
