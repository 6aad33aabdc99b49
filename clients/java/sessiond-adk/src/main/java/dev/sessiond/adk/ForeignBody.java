package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.base.CaseFormat;
import java.util.List;
import java.util.Map;

/** Brings the body of an event that another ADK wrote into the form of this one. */
final class ForeignBody {

  /** Maps of ADK that hold fewer values than JSON. */
  private static final List<String> STRICT_MAPS =
      List.of("artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations");

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

  /** Rust writes the members of a function call into the part itself. */
  private static void repairPart(JsonNode part) {
    if (!(part instanceof ObjectNode object)) {
      return;
    }
    if (object.has("name") && object.has("args")) {
      ObjectNode call = object.objectNode();
      for (String name : List.of("id", "name", "args")) {
        if (object.has(name)) {
          call.set(name, object.remove(name));
        }
      }
      object.set("functionCall", call);
    } else if (object.get("functionResponse") instanceof ObjectNode response && object.has("id")) {
      response.set("id", object.remove("id"));
    } else if (object.has("thinking")) {
      object.set("text", object.remove("thinking"));
      object.put("thought", true);
    }
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
