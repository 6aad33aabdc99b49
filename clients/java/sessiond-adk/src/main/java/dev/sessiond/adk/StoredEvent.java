package dev.sessiond.adk;

import com.google.adk.events.Event;
import java.time.Instant;
import java.util.OptionalLong;

/**
 * An event with its place in the log.
 *
 * @param event ADK's event
 * @param sequence its number in the session's log, from 1
 * @param commitTime time of the commit on the server's clock
 * @param rewound whether it is hidden from {@code getSession}, by a rewind or as the marker of one
 * @param rewindToSequence on the marker of a rewind, the last event that stays visible
 */
public record StoredEvent(
    Event event,
    long sequence,
    Instant commitTime,
    boolean rewound,
    OptionalLong rewindToSequence) {}
