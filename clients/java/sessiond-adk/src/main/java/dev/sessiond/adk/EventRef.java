package dev.sessiond.adk;

/** Names an event of a session. */
public sealed interface EventRef {

  /** The event with an id. */
  record Id(String id) implements EventRef {}

  /** The event with a number in the session's log, from 1. */
  record Sequence(long sequence) implements EventRef {}
}
