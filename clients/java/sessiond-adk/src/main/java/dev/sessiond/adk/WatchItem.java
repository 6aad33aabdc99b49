package dev.sessiond.adk;

import com.google.adk.events.Event;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** One item of a watch. */
public sealed interface WatchItem {

  /** The position right after this item, from which another watch can resume. */
  String cursor();

  /** The state at the start, and the sequence of the session's newest event. */
  record Snapshot(Map<String, Object> state, long lastSequence, String cursor)
      implements WatchItem {}

  /** An event of the session. */
  record Appended(StoredEvent stored, String cursor) implements WatchItem {
    /** ADK's event. */
    public Event event() {
      return stored.event();
    }
  }

  /**
   * A change of user or application state by another session or without one.
   *
   * @param values new values; a key that became null is among {@code removed}
   */
  record Changed(
      Map<String, Object> values, List<String> removed, Instant commitTime, String cursor)
      implements WatchItem {}

  /** Everything that was stored before the watch has been delivered. Comes once. */
  record CaughtUp(String cursor) implements WatchItem {}

  /** The session was deleted or has expired. The watch completes. */
  record Deleted(String cursor) implements WatchItem {}
}
