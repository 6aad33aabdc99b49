package dev.sessiond.adk;

import com.fasterxml.jackson.core.Base64Variant.PaddingReadBehaviour;
import com.fasterxml.jackson.core.Base64Variants;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonPointer;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.deser.DeserializationProblemHandler;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.sessions.State;
import com.google.common.base.Strings;
import com.google.common.collect.Iterators;
import dev.sessiond.v1.StateDelta;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads stored events, also those of newer ADKs and of ADKs in other languages.
 *
 * <p>Id, invocation, author, branch and time come from the envelope. What this version of ADK
 * cannot hold is left out of the object, with one warning, and stays in the store.
 */
final class EventDecoder {

  private static final Logger logger = LoggerFactory.getLogger(EventDecoder.class);

  /** Every round removes one member that Jackson rejects. */
  private static final int MAX_ROUNDS = 32;

  /**
   * How deep the members lie that are removed: first those that cannot be read, at any depth. If
   * there are more, the members that hold them, so that the work is bounded and the rest is read.
   */
  private static final int[] DEPTHS = {Integer.MAX_VALUE, 2, 1};

  /** Maps of ADK that hold fewer values than JSON. */
  private static final List<String> STRICT_MAPS =
      List.of("artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations");

  private static final String OMITTED = "sessiond.omitted";
  private static final ObjectMapper MAPPER =
      Json.kitMapper()
          .registerModule(
              new SimpleModule().addDeserializer(byte[].class, new AnyBase64Deserializer()))
          .addHandler(new UnknownFields());

  private final FirstTime firstTime = new FirstTime();

  /** A stored event with its place in the log. */
  StoredEvent stored(dev.sessiond.v1.Event stored) {
    return new StoredEvent(
        decode(stored),
        stored.getSequence(),
        Messages.instant(stored.getCommitTime()),
        stored.getRewound(),
        stored.hasRewindToSequence()
            ? OptionalLong.of(stored.getRewindToSequence())
            : OptionalLong.empty());
  }

  /** ADK's event of a stored one. A removed key is {@link State#REMOVED} in its delta. */
  Event decode(dev.sessiond.v1.Event stored) {
    Event event = decodeBody(stored);
    if (event.actions() == null) {
      event.setActions(new EventActions());
    }
    event.actions().stateDelta().clear();
    event.actions().stateDelta().putAll(decodeDelta(stored.getStateDelta()));
    return event;
  }

  /** The new value of each key; {@link State#REMOVED} for removed keys and for nulls. */
  static Map<String, Object> decodeDelta(StateDelta delta) {
    Map<String, JsonNode> members = Json.members(delta.getSetJson());
    Map<String, Object> values = Json.values(members);
    // No map of ADK can hold a null, which other languages store.
    members.keySet().forEach(key -> values.putIfAbsent(key, State.REMOVED));
    delta.getRemoveList().forEach(key -> values.put(key, State.REMOVED));
    return values;
  }

  private Event decodeBody(dev.sessiond.v1.Event stored) {
    List<String> omitted = new ArrayList<>();
    ObjectNode body = kitForm(parseObject(stored), stored, omitted);
    JsonMappingException rejection = null;
    for (int round = 0; round < MAX_ROUNDS * DEPTHS.length; round++) {
      Set<String> unknown = ConcurrentHashMap.newKeySet();
      try {
        Event event = MAPPER.readerFor(Event.class).withAttribute(OMITTED, unknown).readValue(body);
        omitted.addAll(unknown);
        warnOnce(stored, omitted);
        return event;
      } catch (JsonMappingException e) {
        rejection = e;
        String removed = remove(body, e.getPath(), DEPTHS[round / MAX_ROUNDS]);
        if (removed == null) {
          break;
        }
        omitted.add(removed);
      } catch (IOException e) {
        break;
      }
    }
    logger.warn(
        "event {}: this version of ADK cannot read the body: {}",
        stored.getEventId(),
        rejection == null ? "" : rejection.getOriginalMessage());
    return MAPPER.convertValue(envelope(stored), Event.class);
  }

  /**
   * A body in the form of this ADK, with the members of the envelope. What ADK cannot hold and
   * Jackson would not refuse alone is removed, and its name added to {@code omitted}.
   */
  private static ObjectNode kitForm(
      ObjectNode given, dev.sessiond.v1.Event stored, List<String> omitted) {
    ObjectNode body = CanonicalBody.read(given);
    if (body.get("customMetadata") instanceof ObjectNode metadata) {
      body.set("customMetadata", CanonicalBody.metadataList(metadata));
    }
    JsonNode actions = body.get("actions");
    if (actions instanceof ObjectNode object) {
      object.remove("stateDelta");
      STRICT_MAPS.forEach(name -> removeRefused(object.path(name), "actions." + name, omitted));
      if (actions.has("compaction")) {
        Compactions.read(actions, parse(stored));
      }
    } else {
      body.remove("actions");
      omitted.add("actions");
    }
    for (String path : List.of("/content", "/actions/compaction/compactedContent")) {
      if (body.at(path + "/parts") instanceof ArrayNode parts) {
        int before = parts.size();
        Iterators.removeIf(parts.elements(), part -> !part.isObject());
        if (parts.size() < before) {
          omitted.add(path.substring(1).replace('/', '.') + ".parts");
        }
      }
    }
    return body.setAll(envelope(stored));
  }

  /** Removes what a map of ADK cannot hold: nulls, and versions beyond an int. */
  private static void removeRefused(JsonNode map, String path, List<String> omitted) {
    List<String> refused =
        map.properties().stream()
            .filter(
                member ->
                    path.endsWith("artifactDelta")
                        ? !member.getValue().isIntegralNumber()
                            || !member.getValue().canConvertToInt()
                        : member.getValue().isNull())
            .map(Map.Entry::getKey)
            .toList();
    if (map instanceof ObjectNode object) {
      object.remove(refused);
    }
    refused.forEach(key -> omitted.add(path + "." + key));
  }

  private static JsonNode parse(dev.sessiond.v1.Event stored) {
    try {
      return Json.parse(stored.getBodyJson());
    } catch (JsonProcessingException e) {
      return Json.object();
    }
  }

  private static ObjectNode parseObject(dev.sessiond.v1.Event stored) {
    try {
      JsonNode body =
          MAPPER.readTree(
              Strings.isNullOrEmpty(stored.getBodyJson()) ? "{}" : stored.getBodyJson());
      return body.isObject() ? (ObjectNode) body : Json.object();
    } catch (JsonProcessingException e) {
      logger.warn(
          "event {}: the body is not JSON: {}", stored.getEventId(), e.getOriginalMessage());
      return Json.object();
    }
  }

  /** The members of a body that the envelope decides. An empty one leaves the body's own. */
  private static ObjectNode envelope(dev.sessiond.v1.Event stored) {
    ObjectNode envelope = Json.object();
    putUnlessEmpty(envelope, "id", stored.getEventId());
    putUnlessEmpty(envelope, "invocationId", stored.getInvocationId());
    putUnlessEmpty(envelope, "author", stored.getAuthor());
    putUnlessEmpty(envelope, "branch", stored.getBranch());
    // ADK counts in milliseconds; rounding down keeps the order.
    envelope.put("timestamp", Messages.instant(stored.getEventTime()).toEpochMilli());
    return envelope;
  }

  private static void putUnlessEmpty(ObjectNode node, String name, String value) {
    if (!value.isEmpty()) {
      node.put(name, value);
    }
  }

  /** Warns of each omitted field once. */
  private void warnOnce(dev.sessiond.v1.Event stored, List<String> omitted) {
    List<String> news = omitted.stream().filter(firstTime::of).toList();
    if (!news.isEmpty()) {
      logger.warn(
          "event {}: omitted fields that this version of ADK cannot hold: {}; further events with"
              + " these fields are not logged",
          stored.getEventId(),
          String.join(", ", news));
    }
  }

  /**
   * Removes the deepest object member on {@code path} down to {@code depth}, and returns its name.
   * Removing a list item would move the others, so the member that holds the list is removed.
   */
  private static @Nullable String remove(
      ObjectNode body, List<JsonMappingException.Reference> path, int depth) {
    JsonNode node = body;
    ObjectNode owner = null;
    String name = null;
    List<String> names = new ArrayList<>();
    for (JsonMappingException.Reference step : path) {
      if (names.size() == depth) {
        break;
      }
      if (node instanceof ObjectNode object
          && step.getFieldName() != null
          && object.has(step.getFieldName())) {
        owner = object;
        name = step.getFieldName();
        names.add(name);
        node = object.get(name);
      } else if (node instanceof ArrayNode array && step.getIndex() >= 0) {
        node = array.path(step.getIndex());
      } else {
        break;
      }
    }
    if (owner == null) {
      return null;
    }
    owner.remove(name);
    return String.join(".", names);
  }

  /** The dotted names on a path, without the positions in lists. */
  private static String fieldName(JsonPointer path) {
    List<String> names = new ArrayList<>();
    for (JsonPointer step = path; !step.matches(); step = step.tail()) {
      if (step.getMatchingIndex() < 0) {
        names.add(step.getMatchingProperty());
      }
    }
    return String.join(".", names);
  }

  /** Python writes bytes in the URL-safe alphabet, some ADKs without padding. */
  private static final class AnyBase64Deserializer extends JsonDeserializer<byte[]> {
    @Override
    public byte[] deserialize(JsonParser parser, DeserializationContext context)
        throws IOException {
      if (parser.getEmbeddedObject() instanceof byte[] bytes) {
        return bytes;
      }
      String text = parser.getText();
      try {
        String standard = text.replace('-', '+').replace('_', '/').replace("=", "");
        return Base64Variants.MIME_NO_LINEFEEDS
            .withReadPadding(PaddingReadBehaviour.PADDING_ALLOWED)
            .decode(standard);
      } catch (IllegalArgumentException e) {
        return (byte[]) context.handleWeirdStringValue(byte[].class, text, "not base64");
      }
    }
  }

  /** Collects the names of fields that ADK's classes do not have. */
  private static final class UnknownFields extends DeserializationProblemHandler {
    @Override
    @SuppressWarnings("unchecked")
    public boolean handleUnknownProperty(
        DeserializationContext context,
        JsonParser parser,
        JsonDeserializer<?> deserializer,
        Object owner,
        String name)
        throws IOException {
      boolean isNull = parser.currentToken() == JsonToken.VALUE_NULL;
      if (!isNull && context.getAttribute(OMITTED) instanceof Set<?> names) {
        ((Set<String>) names).add(fieldName(parser.getParsingContext().pathAsPointer(false)));
      }
      parser.skipChildren();
      return true;
    }
  }
}
