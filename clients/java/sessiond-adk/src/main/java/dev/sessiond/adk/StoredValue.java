package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.common.collect.Maps;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A value as the server last sent it, with the version of its key.
 *
 * <p>Both come from one response: a version that is newer than the value would hide the write of
 * another writer from {@link Stale#CONFLICT}.
 *
 * @param version null if the server has not sent it
 */
record StoredValue(JsonNode value, @Nullable Long version) {

  /** The state of a session, by key. */
  static Map<String, StoredValue> of(dev.sessiond.v1.Session stored) {
    Map<String, Long> versions = stored.getVersionsMap();
    Map<String, StoredValue> values = new LinkedHashMap<>();
    Json.members(stored.getStateJson())
        .forEach((key, value) -> values.put(key, new StoredValue(value, versions.get(key))));
    return values;
  }

  /** The Java values, without those that are null. */
  static Map<String, Object> decode(Map<String, StoredValue> stored) {
    return Json.values(Maps.transformValues(stored, StoredValue::value));
  }
}
