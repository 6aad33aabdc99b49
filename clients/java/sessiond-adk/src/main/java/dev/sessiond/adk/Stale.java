package dev.sessiond.adk;

import java.util.Locale;

/** The append from a session object that other writers have overtaken. */
public enum Stale {
  /** The server merges deltas key by key, and the caller's object is brought up to date. */
  MERGE,
  /**
   * {@link SessiondStaleException} if another writer has changed a key that the event writes since
   * the object was read; otherwise as {@link #MERGE}.
   */
  CONFLICT,
  /** {@link SessiondStaleException} if the session has any event that the object does not have. */
  ERROR;

  /** Parses the lower-case name, as an address or a configuration file has it. */
  static Stale parse(String name) {
    for (Stale stale : values()) {
      if (stale.name().toLowerCase(Locale.ROOT).equals(name.trim().toLowerCase(Locale.ROOT))) {
        return stale;
      }
    }
    throw new IllegalArgumentException(
        "stale is '" + name + "'. It must be merge, conflict or error.");
  }
}
