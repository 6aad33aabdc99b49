package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.base.CaseFormat;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.List;
import java.util.Map;

/** Brings the body of an event that another ADK wrote into the form of this one. */
final class ForeignBody {

  /** Maps of ADK that hold fewer values than JSON. */
  private static final List<String> STRICT_MAPS =
      List.of("artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations");

  /**
   * Times after 1970: seconds stay below it until the year 5138, milliseconds are above it since
   * 1973.
   */
  private static final double LEAST_MILLIS = 1e11;

  private ForeignBody() {}

  /** Changes {@code body} and returns it. The members of {@code envelope} replace its own. */
  static ObjectNode repair(ObjectNode body, ObjectNode envelope) {
    camelCase(body);
    if (body.get("actions") instanceof ObjectNode actions) {
      camelCase(actions);
    }
    for (JsonNode part : body.path("content").path("parts")) {
      repairPart(part);
    }
    if (body.path("actions").get("compaction") instanceof ObjectNode compaction) {
      JsonNode written = body.path("timestamp");
      double millis = envelope.path("timestamp").doubleValue();
      for (String name : List.of("startTimestamp", "endTimestamp")) {
        if (isSeconds(compaction.path(name), written, millis)) {
          compaction.put(name, toMillis(compaction.get(name).doubleValue()));
        }
      }
    }
    body.setAll(envelope);
    if (body.get("customMetadata") instanceof ObjectNode metadata) {
      body.set("customMetadata", metadataList(metadata));
    }
    if (body.get("actions") instanceof ObjectNode actions) {
      actions.remove("stateDelta");
      for (String name : STRICT_MAPS) {
        if (actions.get(name) instanceof ObjectNode map) {
          List<String> omitted =
              map.properties().stream()
                  .filter(member -> !isHeld(name, member.getValue()))
                  .map(Map.Entry::getKey)
                  .toList();
          map.remove(omitted);
        }
      }
    } else {
      body.remove("actions");
    }
    return body;
  }

  /** Whether a map of ADK can hold a value: no null, and no version beyond an int. */
  private static boolean isHeld(String map, JsonNode value) {
    return map.equals("artifactDelta")
        ? value.isIntegralNumber() && value.canConvertToInt()
        : !value.isNull();
  }

  /**
   * Whether a time of a body is in seconds, as Python's are. The body's {@code timestamp} tells the
   * unit; without it, the magnitude.
   */
  private static boolean isSeconds(JsonNode time, JsonNode written, double eventMillis) {
    if (!time.isNumber()) {
      return false;
    }
    if (written.isNumber()) {
      // The kits round an event's time to their own precision.
      if (Math.abs(written.doubleValue() - eventMillis) < 2) {
        return false;
      }
      if (Math.abs(written.doubleValue() * 1000 - eventMillis) < 2) {
        return true;
      }
    }
    return Math.abs(time.doubleValue()) < LEAST_MILLIS;
  }

  /** Rounds as the time of an event: to the nearest nanosecond, then down. Keeps the order. */
  private static BigInteger toMillis(double seconds) {
    return new BigDecimal(seconds)
        .setScale(9, RoundingMode.HALF_UP)
        .movePointRight(3)
        .setScale(0, RoundingMode.FLOOR)
        .toBigInteger();
  }

  /** Rust writes its own fields in snake case. A member in camel case stays as it is. */
  private static void camelCase(ObjectNode node) {
    List<String> names =
        node.properties().stream()
            .filter(member -> member.getKey().indexOf('_') > 0)
            .map(Map.Entry::getKey)
            .toList();
    for (String name : names) {
      String camel = CaseFormat.LOWER_UNDERSCORE.to(CaseFormat.LOWER_CAMEL, name);
      if (!node.has(camel)) {
        node.set(camel, node.get(name));
        node.remove(name);
      }
    }
  }

  /** Rust's parts are objects of their own, told apart by their members. */
  private static void repairPart(JsonNode part) {
    if (!(part instanceof ObjectNode object)) {
      return;
    }
    camelCase(object);
    if (object.get("functionResponse") instanceof ObjectNode answer) {
      // A tool in Rust may return any JSON. ADK for Python wraps what is not an object in this way.
      JsonNode result = answer.get("response");
      if (result != null && !result.isObject()) {
        answer.putObject("response").set("result", result);
      }
    }
    if (object.has("name") && object.has("args")) {
      wrap(object, "functionCall", List.of("id", "name", "args"));
    } else if (object.has("mimeType") && isBytes(object.path("data"))) {
      object.put("data", bytes(object.get("data")));
      wrap(object, "inlineData", List.of("mimeType", "data"));
    } else if (object.has("fileUri")) {
      wrap(object, "fileData", List.of("mimeType", "fileUri"));
    } else if (object.get("functionResponse") instanceof ObjectNode response && object.has("id")) {
      response.set("id", object.remove("id"));
    } else if (object.has("thinking")) {
      object.set("text", object.remove("thinking"));
      object.put("thought", true);
      if (object.has("signature")) {
        object.set("thoughtSignature", object.remove("signature"));
      }
    }
  }

  /** Moves members of a part into an object of its own. */
  private static void wrap(ObjectNode part, String name, List<String> members) {
    ObjectNode inner = part.objectNode();
    for (String member : members) {
      if (part.has(member)) {
        inner.set(member, part.remove(member));
      }
    }
    part.set(name, inner);
  }

  private static boolean isBytes(JsonNode list) {
    if (!list.isArray()) {
      return false;
    }
    for (JsonNode item : list) {
      if (!item.isInt() || item.intValue() < 0 || item.intValue() > 255) {
        return false;
      }
    }
    return true;
  }

  private static byte[] bytes(JsonNode list) {
    byte[] bytes = new byte[list.size()];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) list.get(i).intValue();
    }
    return bytes;
  }

  /**
   * The other ADKs have an object of any JSON; this one has a list of keys with a string, a number
   * or strings. Other values become their JSON text.
   */
  private static ArrayNode metadataList(ObjectNode metadata) {
    ArrayNode list = metadata.arrayNode();
    metadata
        .properties()
        .forEach(
            member -> {
              ObjectNode item = list.addObject().put("key", member.getKey());
              JsonNode value = member.getValue();
              if (value.isTextual()) {
                item.put("stringValue", value.textValue());
              } else if (value.isNumber() && value.doubleValue() == (float) value.doubleValue()) {
                item.put("numericValue", value.floatValue());
              } else if (isListOfStrings(value)) {
                item.putObject("stringListValue").set("values", value);
              } else if (!value.isNull()) {
                item.put("stringValue", Json.write(value));
              }
            });
    return list;
  }

  private static boolean isListOfStrings(JsonNode value) {
    if (!value.isArray()) {
      return false;
    }
    for (JsonNode item : value) {
      if (!item.isTextual()) {
        return false;
      }
    }
    return true;
  }
}
