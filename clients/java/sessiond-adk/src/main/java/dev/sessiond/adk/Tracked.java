package dev.sessiond.adk;

import com.google.adk.sessions.Session;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;

/**
 * What the server has last sent for a session object, beside the object: ADK's class has no room
 * for it.
 *
 * <p>An append needs it to tell a key that another writer removed from one that the agent has set
 * and not committed, and a change of another writer from one of the agent. It is read and written
 * under {@link #lock}.
 */
final class Tracked {

  static final long UNKNOWN = -1;

  /** One append or refresh of an object at a time, so that its events keep the stored order. */
  final AsyncLock lock = new AsyncLock();

  /** What the object shows of appends without a response. */
  final Overlay overlay = new Overlay();

  /** Which life of the session id the object belongs to; "" if the server has not sent it. */
  volatile String uid = "";

  /** Sequence of the session's newest event when the state was read. */
  long sequence = UNKNOWN;

  /** The stored values by key; no {@code temp:} keys. */
  Map<String, StoredValue> stored = Map.of();

  /** Keeps what the server has sent. */
  void record(dev.sessiond.v1.Session session, Map<String, StoredValue> values) {
    uid = session.getUid();
    sequence = session.getLastSequence();
    stored = new HashMap<>(values);
    stored.keySet().removeIf(Messages::isTemp);
  }

  /** The session objects of a service. They are weak references. */
  static final class Registry {
    // Session has no equals, so the map goes by identity.
    private final Map<Session, Tracked> sessions = Collections.synchronizedMap(new WeakHashMap<>());

    Tracked of(Session session) {
      return sessions.computeIfAbsent(session, unused -> new Tracked());
    }
  }
}
