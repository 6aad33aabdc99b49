package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.time.OffsetDateTime;
import java.time.format.DateTimeParseException;
import java.util.List;

/** Times of compactions: milliseconds in this ADK, decimals of seconds in the canonical form. */
final class Compactions {

  private static final List<String> TIMES = List.of("startTimestamp", "endTimestamp");

  /**
   * Times after 1970: seconds stay below it until the year 5138, milliseconds are above it since
   * 1973.
   */
  private static final double LEAST_MILLIS = 1e11;

  private Compactions() {}

  /** Changes this ADK's milliseconds to seconds. */
  static void write(JsonNode actions) {
    if (actions.get("compaction") instanceof ObjectNode compaction) {
      for (String name : TIMES) {
        compaction.put(name, BigDecimal.valueOf(compaction.path(name).longValue(), 3));
      }
    }
  }

  /**
   * Changes seconds to this ADK's milliseconds. {@code exact} has the decimals of the same body.
   */
  static void read(JsonNode actions, JsonNode exact) {
    if (!(actions.get("compaction") instanceof ObjectNode compaction)) {
      return;
    }
    for (String name : TIMES) {
      JsonNode time = compaction.path(name);
      JsonNode decimal = exact.path("actions").path("compaction").path(name);
      if (time.isTextual()) {
        readText(compaction, name, time.textValue());
      } else if (time.isNumber() && Double.isFinite(time.doubleValue())) {
        compaction.put(name, millis(decimal.isNumber() ? decimal : time));
      }
    }
  }

  /** A text that is no time stays, and is refused with the record. */
  private static void readText(ObjectNode compaction, String name, String time) {
    try {
      compaction.put(name, OffsetDateTime.parse(time).toInstant().toEpochMilli());
    } catch (DateTimeParseException | ArithmeticException e) {
      compaction.put(name, time);
    }
  }

  /** Rounds as the time of an event: to the nanosecond, then down. Keeps the order. */
  private static BigInteger millis(JsonNode time) {
    boolean isMillis = Math.abs(time.doubleValue()) >= LEAST_MILLIS;
    return time.decimalValue()
        .movePointRight(isMillis ? 0 : 3)
        .setScale(6, RoundingMode.HALF_UP)
        .setScale(0, RoundingMode.FLOOR)
        .toBigInteger();
  }

  /** ADK for TypeScript has the compaction in the event itself, with milliseconds and a text. */
  static void move(ObjectNode body, ObjectNode actions) {
    if (!body.path("isCompacted").isBoolean()) {
      return;
    }
    boolean isCompacted = body.remove("isCompacted").booleanValue();
    JsonNode start = body.path("startTime");
    JsonNode end = body.path("endTime");
    JsonNode text = body.path("compactedContent");
    if (isCompacted && start.isNumber() && end.isNumber() && text.isTextual()) {
      ObjectNode compaction = actions.putObject("compaction");
      compaction.put("startTimestamp", start.decimalValue().movePointLeft(3));
      compaction.put("endTimestamp", end.decimalValue().movePointLeft(3));
      ObjectNode content = compaction.putObject("compactedContent").put("role", "model");
      content.putArray("parts").addObject().set("text", text);
    }
    body.remove(List.of("startTime", "endTime", "compactedContent"));
  }
}
