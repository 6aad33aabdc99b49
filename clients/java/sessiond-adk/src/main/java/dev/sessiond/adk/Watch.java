package dev.sessiond.adk;

import dev.sessiond.v1.WatchStart;
import java.time.Duration;

/** The start of a watch, and how long it bridges an outage. */
public final class Watch {

  private static final Duration RECONNECT = Duration.ofSeconds(60);

  private final WatchStart start;
  private final String cursor;
  private final Duration reconnect;

  private Watch(WatchStart start, String cursor, Duration reconnect) {
    this.start = start;
    this.cursor = cursor;
    this.reconnect = reconnect;
  }

  /** Begins with the current state. */
  public static Watch fromSnapshot() {
    return new Watch(WatchStart.WATCH_START_SNAPSHOT, "", RECONNECT);
  }

  /** Begins with the first event of the session. */
  public static Watch fromBeginning() {
    return new Watch(WatchStart.WATCH_START_BEGINNING, "", RECONNECT);
  }

  /** Begins with the next change. */
  public static Watch fromNow() {
    return new Watch(WatchStart.WATCH_START_NOW, "", RECONNECT);
  }

  /** Resumes right after an item of another watch of the same scope. */
  public static Watch after(String cursor) {
    return new Watch(WatchStart.WATCH_START_SNAPSHOT, cursor, RECONNECT);
  }

  /** How long to try again while the server is away; 60 seconds by default. */
  public Watch reconnect(Duration limit) {
    return new Watch(start, cursor, limit);
  }

  WatchStart start() {
    return start;
  }

  String cursor() {
    return cursor;
  }

  Duration reconnectLimit() {
    return reconnect;
  }
}
