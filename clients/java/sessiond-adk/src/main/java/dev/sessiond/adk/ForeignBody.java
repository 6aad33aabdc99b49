package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.base.CaseFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** Brings the body of an event that another ADK wrote into the form of this one. */
final class ForeignBody {

  /** Maps of ADK that hold fewer values than JSON. */
  private static final List<String> STRICT_MAPS =
      List.of("artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations");

  private ForeignBody() {}

  /**
   * Changes {@code body} and returns it. The members of {@code envelope} replace its own. What ADK
   * cannot hold and Jackson would not refuse alone is removed, and its name added to {@code
   * omitted}.
   */
  static ObjectNode repair(ObjectNode body, ObjectNode envelope, List<String> omitted) {
    camelCase(body);
    if (body.get("actions") instanceof ObjectNode actions) {
      camelCase(actions);
    }
    repairContent(body.path("content"), "content", omitted);
    ForeignCompaction.repair(body, envelope, omitted);
    body.setAll(envelope);
    if (body.get("customMetadata") instanceof ObjectNode metadata) {
      body.set("customMetadata", metadataList(metadata));
    }
    if (body.get("actions") instanceof ObjectNode actions) {
      actions.remove("stateDelta");
      for (String name : STRICT_MAPS) {
        if (actions.get(name) instanceof ObjectNode map) {
          List<String> refused =
              map.properties().stream()
                  .filter(member -> !isHeld(name, member.getValue()))
                  .map(Map.Entry::getKey)
                  .toList();
          map.remove(refused);
          refused.forEach(key -> omitted.add("actions." + name + "." + key));
        }
      }
    } else if (body.hasNonNull("actions")) {
      body.remove("actions");
      omitted.add("actions");
    } else {
      body.remove("actions");
    }
    return body;
  }

  /** Brings the parts of a content into ADK's form. What is no part is left out. */
  static void repairContent(JsonNode content, String name, List<String> omitted) {
    Iterator<JsonNode> parts = content.path("parts").elements();
    while (parts.hasNext()) {
      if (parts.next() instanceof ObjectNode part) {
        repairPart(part);
      } else if (content.path("parts").isArray()) {
        parts.remove();
        omitted.add(name + ".parts");
      }
    }
  }

  /** Whether a map of ADK can hold a value: no null, and no version beyond an int. */
  private static boolean isHeld(String map, JsonNode value) {
    return map.equals("artifactDelta")
        ? value.isIntegralNumber() && value.canConvertToInt()
        : !value.isNull();
  }

  /** Rust writes its own fields in snake case. A member in camel case stays as it is. */
  static void camelCase(ObjectNode node) {
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
  private static void repairPart(ObjectNode object) {
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
