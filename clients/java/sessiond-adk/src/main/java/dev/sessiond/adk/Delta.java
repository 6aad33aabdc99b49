package dev.sessiond.adk;

import com.google.adk.sessions.State;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * State changes that are applied together: {@code values} first, then {@code operations} in their
 * order. Keys carry their prefix.
 *
 * @param values new values; null stores a JSON null, {@link State#REMOVED} removes the key
 */
public record Delta(Map<String, ?> values, List<Operation> operations) {

  public Delta {
    // Map.copyOf refuses null values.
    values = Collections.unmodifiableMap(new LinkedHashMap<>(values));
    operations = List.copyOf(operations);
  }

  /** New values alone. */
  public static Delta of(Map<String, ?> values) {
    return new Delta(values, List.of());
  }

  /** Operations alone. */
  public static Delta of(Operation... operations) {
    return new Delta(Map.of(), List.of(operations));
  }
}
