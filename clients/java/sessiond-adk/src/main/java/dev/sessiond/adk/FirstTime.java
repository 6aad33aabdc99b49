package dev.sessiond.adk;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Lets a warning be logged once, as every turn reads the same data again. */
final class FirstTime {

  /** Bounded, as names come from outside. */
  private static final int MAX_NAMES = 1000;

  private final Set<String> names = ConcurrentHashMap.newKeySet();

  boolean of(String name) {
    return names.size() < MAX_NAMES && names.add(name);
  }
}
