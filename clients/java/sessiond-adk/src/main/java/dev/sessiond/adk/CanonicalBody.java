package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.base.CaseFormat;
import com.google.common.collect.ImmutableMap;
import com.google.common.collect.Streams;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The canonical form of an event's body ({@code docs/bodies.md}), and its variants: ADK files of
 * other languages, older ADK files, and clients without an adapter. Members that no rule names are
 * kept.
 */
final class CanonicalBody {

  /** The members whose own members have canonical names. Others may hold data of applications. */
  private static final Set<String> RECORDS =
      Set.of(
          ("actions citationMetadata compactedContent compaction content fileData functionCall"
                  + " functionResponse groundingMetadata inlineData nodeInfo parts usageMetadata")
              .split(" "));

  /**
   * Names of one ADK, in camel case, for members that the others have too; and reasons to finish of
   * ADK for Rust.
   */
  private static final Map<String, String> RENAMED =
      Map.of(
          "Stop", "STOP",
          "MaxTokens", "MAX_TOKENS",
          "Safety", "SAFETY",
          "Recitation", "RECITATION",
          "Other", "OTHER",
          "cacheReadInputTokenCount", "cachedContentTokenCount",
          "citationSources", "citations",
          "routes", "route",
          "thinkingTokenCount", "thoughtsTokenCount");

  /**
   * Parts that ADK for Rust writes without a member around them: the members of each. All but the
   * id are required, of a file only the address.
   */
  private static final ImmutableMap<String, List<String>> BARE_PARTS =
      ImmutableMap.of(
          "functionCall", List.of("name", "args", "id"),
          "inlineData", List.of("mimeType", "data"),
          "fileData", List.of("fileUri", "mimeType"));

  private static final Map<String, Integer> REQUIRED =
      Map.of("functionCall", 2, "inlineData", 2, "fileData", 1);

  private CanonicalBody() {}

  /** Changes the JSON of this ADK's event into the canonical form. */
  static void write(ObjectNode event) {
    if (event.get("customMetadata") instanceof ArrayNode list) {
      event.set("customMetadata", metadataObject(list));
    }
    Compactions.write(event.path("actions"));
  }

  /** A copy of a body in the canonical form, but for the times of a compaction. */
  static ObjectNode read(ObjectNode given) {
    ObjectNode body = (ObjectNode) rename(given);
    if (!body.hasNonNull("actions")) {
      body.putObject("actions");
    }
    if (body.get("actions") instanceof ObjectNode actions) {
      if (body.has("route")) {
        actions.putIfAbsent("route", body.remove("route"));
      }
      Compactions.move(body, actions);
    }
    if (body.get("customMetadata") instanceof ArrayNode list) {
      body.set("customMetadata", metadataObject(list));
    }
    String reason = body.path("finishReason").textValue();
    if (reason != null) {
      body.put("finishReason", RENAMED.getOrDefault(reason, reason));
    }
    return body;
  }

  /** The node with canonical names and parts, and without members that are null. */
  private static JsonNode rename(JsonNode node) {
    if (node instanceof ArrayNode list) {
      ArrayNode items = list.arrayNode();
      list.forEach(item -> items.add(rename(item)));
      return items;
    }
    if (!(node instanceof ObjectNode object)) {
      return node;
    }
    ObjectNode renamed = object.objectNode();
    for (Map.Entry<String, JsonNode> member : object.properties()) {
      String given = member.getKey();
      JsonNode value = member.getValue();
      String camel =
          given.indexOf('_') > 0
              ? CaseFormat.LOWER_UNDERSCORE.to(CaseFormat.LOWER_CAMEL, given)
              : given;
      String name = RENAMED.getOrDefault(camel, camel);
      boolean keepsNull = name.equals("args") || name.equals("response");
      // Of two spellings, the canonical one counts.
      if ((name.equals(given) || !object.has(name)) && (!value.isNull() || keepsNull)) {
        renamed.set(name, RECORDS.contains(name) ? rename(value) : value);
      }
    }
    if (renamed.get("parts") instanceof ArrayNode parts) {
      parts.forEach(CanonicalBody::convertPart);
      if (renamed.path("role").asText().equals("function")) {
        renamed.put("role", "user");
      }
    }
    return renamed;
  }

  /** Makes the kind of a part a member around it. */
  private static void convertPart(JsonNode node) {
    if (!(node instanceof ObjectNode part)) {
      return;
    }
    if (part.path("thinking").isTextual()) {
      part.set("text", part.remove("thinking"));
      part.put("thought", true);
      if (part.has("signature")) {
        part.set("thoughtSignature", part.remove("signature"));
      }
    }
    BARE_PARTS.forEach(
        (kind, members) -> {
          if (members.subList(0, REQUIRED.get(kind)).stream().allMatch(part::has)) {
            ObjectNode inner = part.objectNode();
            members.stream().filter(part::has).forEach(name -> inner.set(name, part.remove(name)));
            part.set(kind, inner);
          }
        });
    if (part.path("functionCall").path("args").isNull()) {
      ((ObjectNode) part.get("functionCall")).putObject("args");
    }
    if (part.get("functionResponse") instanceof ObjectNode answer) {
      if (part.has("id")) {
        answer.set("id", part.remove("id"));
      }
      // A tool in Rust may return any JSON. ADK for Python wraps what is not an object in this way.
      JsonNode result = answer.get("response");
      if (result != null && !result.isObject()) {
        answer.putObject("response").set("result", result);
      }
    }
    if (part.get("inlineData") instanceof ObjectNode blob && isBytes(blob.path("data"))) {
      blob.put("data", bytes((ArrayNode) blob.get("data")));
    }
  }

  private static boolean isBytes(JsonNode list) {
    return list.isArray()
        && Streams.stream(list)
            .allMatch(item -> item.isInt() && item.intValue() >= 0 && item.intValue() < 256);
  }

  private static byte[] bytes(ArrayNode list) {
    byte[] bytes = new byte[list.size()];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) list.get(i).intValue();
    }
    return bytes;
  }

  /** This ADK has a list of keys with typed values, the others an object. */
  private static ObjectNode metadataObject(ArrayNode list) {
    ObjectNode object = list.objectNode();
    for (JsonNode entry : list) {
      JsonNode texts = entry.path("stringListValue").path("values");
      JsonNode number = entry.path("numericValue");
      JsonNode value = texts.isMissingNode() ? number : texts;
      object.set(
          entry.path("key").asText(),
          entry.has("stringValue")
              ? entry.get("stringValue")
              : value.isMissingNode() ? list.nullNode() : value);
    }
    return object;
  }

  /**
   * The inverse of {@link #metadataObject}. Values that are no string, number or list of strings
   * become their JSON text.
   */
  static ArrayNode metadataList(ObjectNode metadata) {
    ArrayNode list = metadata.arrayNode();
    for (Map.Entry<String, JsonNode> member : metadata.properties()) {
      ObjectNode item = list.addObject().put("key", member.getKey());
      JsonNode value = member.getValue();
      List<JsonNode> items = new ArrayList<>();
      value.forEach(items::add);
      if (value.isTextual()) {
        item.put("stringValue", value.textValue());
      } else if (value.isNumber() && value.doubleValue() == (float) value.doubleValue()) {
        item.put("numericValue", value.floatValue());
      } else if (value.isArray() && items.stream().allMatch(JsonNode::isTextual)) {
        item.putObject("stringListValue").set("values", value);
      } else if (!value.isNull()) {
        item.put("stringValue", Json.write(value));
      }
    }
    return list;
  }
}
