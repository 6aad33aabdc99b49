package dev.sessiond.adk;

import com.google.adk.events.Event;
import java.time.Instant;

/**
 * An event with its place in the log.
 *
 * @param event ADK's event
 * @param sequence its number in the session's log, from 1
 * @param commitTime time of the commit on the server's clock
 * @param rewound whether a rewind hides it from {@code getSession}
 */
public record StoredEvent(Event event, long sequence, Instant commitTime, boolean rewound) {}
