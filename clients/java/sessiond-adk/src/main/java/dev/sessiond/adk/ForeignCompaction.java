package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.time.OffsetDateTime;
import java.time.format.DateTimeParseException;
import java.util.List;

/**
 * Compactions of other ADKs. Python has times in seconds, Go and Rust in RFC 3339, Rust has snake
 * case, and TypeScript writes members of the event instead of {@code actions.compaction}.
 */
final class ForeignCompaction {

  /**
   * Times after 1970: seconds stay below it until the year 5138, milliseconds are above it since
   * 1973.
   */
  private static final double LEAST_MILLIS = 1e11;

  private ForeignCompaction() {}

  /** Changes {@code body}, whose own names are in camel case, and its {@code actions}. */
  static void repair(ObjectNode body, ObjectNode envelope, List<String> omitted) {
    moveFromEvent(body);
    if (!(body.path("actions").get("compaction") instanceof ObjectNode compaction)) {
      return;
    }
    ForeignBody.camelCase(compaction);
    ForeignBody.repairContent(
        compaction.path("compactedContent"), "actions.compaction.compactedContent", omitted);
    JsonNode written = body.path("timestamp");
    double millis = envelope.path("timestamp").doubleValue();
    for (String name : List.of("startTimestamp", "endTimestamp")) {
      JsonNode time = compaction.path(name);
      if (time.isTextual()) {
        putText(compaction, name, time.textValue());
      } else if (isSeconds(time, written, millis)) {
        compaction.put(name, toMillis(time.doubleValue()));
      }
    }
  }

  private static void moveFromEvent(ObjectNode body) {
    if (!body.path("isCompacted").isBoolean()) {
      return;
    }
    boolean isCompacted = body.remove("isCompacted").booleanValue();
    JsonNode start = body.path("startTime");
    JsonNode end = body.path("endTime");
    JsonNode text = body.path("compactedContent");
    if (!isCompacted
        || !isFinite(start)
        || !isFinite(end)
        || !text.isTextual()
        || body.path("actions").has("compaction")) {
      return;
    }
    ObjectNode actions =
        body.get("actions") instanceof ObjectNode given ? given : body.putObject("actions");
    ObjectNode compaction = actions.putObject("compaction");
    compaction.put("startTimestamp", floor(start));
    compaction.put("endTimestamp", floor(end));
    ObjectNode content = compaction.putObject("compactedContent").put("role", "model");
    content.putArray("parts").addObject().set("text", text);
    body.remove(List.of("startTime", "endTime", "compactedContent"));
  }

  private static boolean isFinite(JsonNode time) {
    return time.isNumber() && Double.isFinite(time.doubleValue());
  }

  private static BigInteger floor(JsonNode millis) {
    return millis.decimalValue().setScale(0, RoundingMode.FLOOR).toBigInteger();
  }

  /** A text that is no time stays, and is refused with the record. */
  private static void putText(ObjectNode compaction, String name, String time) {
    try {
      compaction.put(name, OffsetDateTime.parse(time).toInstant().toEpochMilli());
    } catch (DateTimeParseException | ArithmeticException e) {
      compaction.put(name, time);
    }
  }

  /**
   * Whether a time of a body is in seconds, as Python's are. The body's {@code timestamp} tells the
   * unit; without it, the magnitude.
   */
  private static boolean isSeconds(JsonNode time, JsonNode written, double eventMillis) {
    if (!isFinite(time)) {
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
}
