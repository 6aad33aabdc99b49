package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static com.google.common.truth.Truth.assertWithMessage;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.protobuf.Timestamp;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Bodies of events: canonical, in variants, and unreadable. The cases are in clients/cases. */
final class BodiesTest {

  private static List<JsonNode> cases(String file) throws Exception {
    List<JsonNode> cases = new ArrayList<>();
    Json.parse(Files.readString(Path.of("../../cases/bodies", file))).forEach(cases::add);
    cases.removeIf(one -> one.path("except").toString().contains("\"java\""));
    return cases;
  }

  private static Event decode(JsonNode body) {
    return decode(Json.write(body));
  }

  private static Event decode(String body) {
    return new EventDecoder()
        .decode(
            dev.sessiond.v1.Event.newBuilder()
                .setEventId("e1")
                .setInvocationId("i")
                .setAuthor("a")
                .setBranch("a.b")
                .setEventTime(Timestamp.newBuilder().setSeconds(1_795_690_000))
                .setBodyJson(body)
                .build());
  }

  /** Adds the paths of {@code wanted} that {@code found} does not have. */
  private static void missing(
      JsonNode found, JsonNode wanted, JsonNode lost, String path, List<String> missing) {
    if (lost.toString().contains('"' + path + '"')) {
      return;
    }
    if (wanted.isObject()) {
      String prefix = path.isEmpty() ? "" : path + ".";
      wanted
          .properties()
          .forEach(
              one ->
                  missing(
                      found.path(one.getKey()),
                      one.getValue(),
                      lost,
                      prefix + one.getKey(),
                      missing));
    } else if (wanted.isArray() && wanted.size() == found.size()) {
      for (int i = 0; i < wanted.size(); i++) {
        missing(found.path(i), wanted.get(i), lost, path + "." + i, missing);
      }
    } else if (wanted.isNumber()
        ? found.decimalValue().compareTo(wanted.decimalValue()) != 0
        : !found.equals(wanted)) {
      missing.add(path);
    }
  }

  @Test
  void aCanonicalBodyIsReadAndWritten() throws Exception {
    for (JsonNode one : cases("canonical.json")) {
      JsonNode wanted = one.get("canonical");
      EncodedEvent encoded = EncodedEvent.of(decode(wanted), List.of(), false);
      List<String> missing = new ArrayList<>();
      JsonNode written = Json.parse(encoded.message().getBodyJson());
      missing(written, wanted, one.path("lost").path("java"), "", missing);
      assertWithMessage(one.get("name").asText()).that(missing).isEmpty();
    }
  }

  @Test
  void aVariantIsReadAsTheCanonicalBody() throws Exception {
    for (JsonNode one : cases("variants.json")) {
      assertWithMessage(one.get("name").asText())
          .that(decode(one.get("body")).toJson())
          .isEqualTo(decode(one.get("canonical")).toJson());
    }
  }

  @Test
  void whatCannotBeReadIsLeftOutAlone() throws Exception {
    for (JsonNode one : cases("unreadable.json")) {
      assertWithMessage(one.get("name").asText())
          .that(decode(one.get("body")).toJson())
          .isEqualTo(decode(one.get("kept")).toJson());
    }
  }

  @Test
  void valuesOfMetadataThatAdkHasNoTypeForAreText() {
    Event read = decode("{\"customMetadata\":{\"o\":{\"a\":1}}}");
    assertThat(read.customMetadata().orElseThrow().get(0).stringValue()).hasValue("{\"a\":1}");
  }

  @Test
  void onlyTheMemberOfARecordIsLeftOut() {
    String confirmations =
        """
        {"actions": {"transferToAgent": "billing", "requestedToolConfirmations": {
        "ok": {"hint": "sure?", "confirmed": true, "payload": [1]},
        "odd": {"hint": [], "confirmed": true},
        "none": {"hint": "x", "confirmed": {}},
        "null": null}, "artifactDelta": {"a": 1, "b": "x", "c": 4294967296}}}
        """;
    try (Logged logged = new Logged(EventDecoder.class)) {
      EventActions read = decode(confirmations).actions();
      assertThat(read.transferToAgent()).hasValue("billing");
      assertThat(read.artifactDelta()).containsExactly("a", 1);
      assertThat(read.requestedToolConfirmations().get("ok").payload()).isEqualTo(List.of(1));
      assertThat(read.requestedToolConfirmations().get("odd").confirmed()).isTrue();
      assertThat(read.requestedToolConfirmations()).doesNotContainKey("null");
      assertThat(logged.messages()).hasSize(1);
      for (String name :
          List.of(
              "requestedToolConfirmations.odd.hint",
              "requestedToolConfirmations.none",
              "requestedToolConfirmations.null",
              "artifactDelta.b",
              "artifactDelta.c")) {
        assertThat(logged.messages().get(0)).contains("actions." + name);
      }
    }
  }

  @Test
  void manyRecordsThatCannotBeReadHideNoOther() {
    List<String> odd = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      odd.add("\"c" + i + "\": {\"hint\": [], \"confirmed\": []}");
    }
    Event read =
        decode(
            "{\"content\": {\"parts\": [{\"text\": \"hi\"}, 7, \"x\", {\"text\": \"you\"}]},"
                + " \"actions\": {\"artifactDelta\": {\"refund.pdf\": 2}, \"transferToAgent\":"
                + " \"billing\", \"requestedToolConfirmations\": {"
                + String.join(",", odd)
                + "}}}");
    assertThat(read.actions().artifactDelta()).containsEntry("refund.pdf", 2);
    assertThat(read.actions().transferToAgent()).hasValue("billing");
    assertThat(read.stringifyContent()).isEqualTo("hiyou");
  }
}
