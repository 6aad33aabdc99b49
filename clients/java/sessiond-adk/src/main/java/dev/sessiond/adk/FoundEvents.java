package dev.sessiond.adk;

import java.util.List;

/**
 * Events of a session that were read by their refs.
 *
 * @param found those that there are, in the order of the refs; one that is named twice comes twice
 * @param missing the refs that name no event of the session, in their order
 */
public record FoundEvents(List<StoredEvent> found, List<EventRef> missing) {}
