package dev.sessiond.adk;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Another writer has modified the session in storage since the object was read, and {@link Stale}
 * says that this is an error. Nothing was written. Read the session again and decide again.
 */
public final class SessiondStaleException extends SessiondException {

  SessiondStaleException(FailedCall call, @Nullable Throwable cause) {
    super(call, cause);
  }

  /** With {@link Stale#CONFLICT}, the keys that another writer has changed; otherwise empty. */
  public List<String> keys() {
    List<String> keys = new ArrayList<>();
    try {
      JsonNode named = Json.parse(call().metadata().getOrDefault("keys", "[]"));
      named.forEach(key -> keys.add(key.asText()));
    } catch (JsonProcessingException e) {
      // A server of another version may write the list differently.
      return List.of();
    }
    return keys;
  }
}
