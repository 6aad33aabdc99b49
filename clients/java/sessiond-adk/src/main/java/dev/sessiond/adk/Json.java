package dev.sessiond.adk;

import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.adk.JsonBaseModel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * JSON as the server stores it.
 *
 * <p>Values are compared as parsed trees with exact numbers, so that a value that is a {@code Long}
 * here and an {@code Integer} when it is read again counts as equal.
 */
final class Json {

  // The server limits texts by bytes, not the length of a number.
  private static JsonFactoryBuilder factory() {
    return new JsonFactoryBuilder()
        .streamReadConstraints(
            StreamReadConstraints.builder()
                .maxNumberLength(4 << 20)
                .maxNameLength(4 << 20)
                .build());
  }

  /** Reads and writes trees. */
  private static final ObjectMapper TREES =
      new ObjectMapper(factory().build())
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .configure(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES, false);

  /** Writes state values: as ADK, but times in ISO 8601, as the other languages write them. */
  private static final ObjectMapper VALUES =
      JsonBaseModel.getMapper()
          // An unquoted NaN is no JSON, so `encode` refuses it.
          .copyWith(factory().disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS).build())
          .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
          .disable(SerializationFeature.WRITE_DURATIONS_AS_TIMESTAMPS);

  private Json() {}

  /** A copy of ADK's mapper without limits of its own. */
  static ObjectMapper kitMapper() {
    return JsonBaseModel.getMapper().copyWith(factory().build());
  }

  static JsonNode parse(String text) throws JsonProcessingException {
    return TREES.readTree(text);
  }

  static ObjectNode object() {
    return TREES.createObjectNode();
  }

  static String write(JsonNode tree) {
    try {
      return TREES.writeValueAsString(tree);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("A tree of JSON values cannot be written.", e);
    }
  }

  /**
   * The value of a key as it is stored.
   *
   * @throws StateValueException the value has no JSON form, or the key has half a surrogate pair
   */
  static JsonNode encode(String key, @Nullable Object value, Mender mender) {
    requireKey(key);
    try {
      return parse(mender.mend("'" + key + "'", VALUES.writeValueAsString(value)));
    } catch (JsonProcessingException e) {
      throw new StateValueException(key, e.getOriginalMessage(), e);
    }
  }

  /** Refuses a key with half a surrogate pair: another key must not take its place. */
  static String requireKey(String key) {
    if (!isUnicode(key)) {
      throw new StateValueException(key, "the key contains half a surrogate pair", null);
    }
    return key;
  }

  static boolean isUnicode(String text) {
    return StandardCharsets.UTF_8.newEncoder().canEncode(text);
  }

  /** The members of a JSON object that the server has sent; "" has none. */
  static Map<String, JsonNode> members(String text) {
    if (text.isEmpty()) {
      return Map.of();
    }
    Map<String, JsonNode> members = new LinkedHashMap<>();
    try {
      parse(text).properties().forEach(member -> members.put(member.getKey(), member.getValue()));
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("The server has sent text that is not JSON.", e);
    }
    return members;
  }

  /** The Java value of a tree, as ADK's own mapper makes it; null for a JSON null. */
  static @Nullable Object value(JsonNode node) {
    return switch (node.getNodeType()) {
      case OBJECT -> {
        Map<String, Object> map = new LinkedHashMap<>();
        node.properties().forEach(member -> map.put(member.getKey(), value(member.getValue())));
        yield map;
      }
      case ARRAY -> {
        List<Object> list = new ArrayList<>(node.size());
        node.forEach(item -> list.add(value(item)));
        yield list;
      }
      case STRING -> node.textValue();
      case BOOLEAN -> node.booleanValue();
      case NUMBER -> node.isIntegralNumber() ? node.numberValue() : (Object) node.doubleValue();
      default -> null;
    };
  }

  /** The Java values of members, without those that are null. */
  static Map<String, Object> values(Map<String, JsonNode> members) {
    Map<String, Object> values = new LinkedHashMap<>();
    members.forEach(
        (key, node) -> {
          Object value = value(node);
          if (value != null) {
            values.put(key, value);
          }
        });
    return values;
  }
}
