package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static com.google.common.truth.Truth.assertWithMessage;

import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.events.EventCompaction;
import com.google.protobuf.Timestamp;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Records of other ADKs inside {@code actions}. */
final class ForeignActionsTest {

  private static final String REST =
      """
      "artifactDelta": {"refund.pdf": 2}, "transferToAgent": "billing", "escalate": true,
      "requestedToolConfirmations": {"ok": {"hint": "sure?", "confirmed": false}}\
      """;
  private static final String SUMMARY =
      """
      {"role": "model", "parts": [{"text": "Summary"}]}\
      """;

  private static Event decode(String body) {
    return new EventDecoder()
        .decode(
            dev.sessiond.v1.Event.newBuilder()
                .setEventId("e1")
                .setEventTime(Timestamp.newBuilder().setSeconds(1_795_690_000))
                .setBodyJson(body)
                .build());
  }

  private static void assertRestIsThere(EventActions read) {
    assertThat(read.artifactDelta()).containsEntry("refund.pdf", 2);
    assertThat(read.transferToAgent()).hasValue("billing");
    assertThat(read.escalate()).hasValue(true);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"compaction\": {\"startTimestamp\": \"then\", \"endTimestamp\": 2, \"compactedContent\": {}}",
        "\"compaction\": {\"startTimestamp\": [], \"endTimestamp\": {}, \"compactedContent\": 1}",
        "\"compaction\": {\"startTimestamp\": 1}",
        "\"compaction\": []",
        "\"compaction\": {\"startTimestamp\": 1e300, \"endTimestamp\": 1e300}",
        "\"compaction\": \"yes\", \"endOfAgent\": [], \"skipSummarization\": {}",
        "\"requestedAuthConfigs\": {\"a\": [1], \"b\": 2}, \"deletedArtifactIds\": [{}]",
        "\"agentState\": {\"x\": [1]}, \"route\": {\"y\": null}",
        "\"compaction\": null, \"endOfAgent\": null, \"deletedArtifactIds\": null",
      })
  void aRecordThatCannotBeReadLeavesTheOthers(String record) {
    EventActions read = decode("{\"actions\": {" + record + "," + REST + "}}").actions();
    assertRestIsThere(read);
    assertThat(read.compaction()).isEmpty();
    assertThat(read.requestedToolConfirmations().get("ok").hint()).isEqualTo("sure?");
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
              "actions.requestedToolConfirmations.odd.hint",
              "actions.requestedToolConfirmations.none",
              "actions.requestedToolConfirmations.null",
              "actions.artifactDelta.b",
              "actions.artifactDelta.c")) {
        assertThat(logged.messages().get(0)).contains(name);
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
                + " \"billing\", \"escalate\": true, \"requestedToolConfirmations\": {"
                + String.join(",", odd)
                + "}}}");
    assertRestIsThere(read.actions());
    assertThat(read.stringifyContent()).isEqualTo("hiyou");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "Rust | \"compaction\":{\"start_timestamp\":\"2026-11-26T09:00:00.5Z\",\"end_timestamp\":\"2026-11-26T09:30:00.123456789Z\",\"compacted_content\":SUMMARY}",
        "Go | \"compaction\":{\"startTimestamp\":\"2026-11-26T10:00:00.5+01:00\",\"endTimestamp\":\"2026-11-26T09:30:00.1234Z\",\"compactedContent\":SUMMARY,\"excludedEvents\":[\"e1\"]}",
        "Python | \"compaction\":{\"startTimestamp\":1795683600.5,\"endTimestamp\":1795685400.1234,\"compactedContent\":SUMMARY}",
        "Java | \"compaction\":{\"startTimestamp\":1795683600500,\"endTimestamp\":1795685400123,\"compactedContent\":SUMMARY}",
      })
  void aCompactionOfAnyAdkIsRead(String adk, String record) {
    Event read = decode("{\"actions\":{" + record.replace("SUMMARY", SUMMARY) + "," + REST + "}}");
    assertRestIsThere(read.actions());
    assertCompaction(adk, read, "Summary");
  }

  @Test
  void aCompactionOfTypeScriptIsRead() {
    Event read =
        decode(
            "{\"isCompacted\":true,\"startTime\":1795683600500.25,\"endTime\":1795685400123,"
                + "\"compactedContent\":\"Summary\",\"content\":"
                + SUMMARY
                + ",\"actions\":{"
                + REST
                + "}}");
    assertRestIsThere(read.actions());
    assertCompaction("TypeScript", read, "Summary");
    assertThat(read.stringifyContent()).isEqualTo("Summary");
  }

  @Test
  void theContentOfACompactionOfRustIsRead() {
    Event read =
        decode(
            "{\"actions\":{\"compaction\":{\"start_timestamp\":\"2026-11-26T09:00:00.5Z\","
                + "\"end_timestamp\":\"2026-11-26T09:30:00.123Z\",\"compacted_content\":"
                + "{\"role\":\"model\",\"parts\":[{\"text\":\"Sum\"},{\"name\":\"f\",\"args\":{},"
                + "\"id\":\"c\"},{\"text\":\"mary\"}]}},\"transfer_to_agent\":\"billing\"}}");
    EventCompaction compaction = read.actions().compaction().orElseThrow();
    assertThat(compaction.compactedContent().parts().orElseThrow().get(1).functionCall())
        .isPresent();
    assertThat(read.actions().transferToAgent()).hasValue("billing");
  }

  private static void assertCompaction(String adk, Event read, String text) {
    EventCompaction compaction = read.actions().compaction().orElseThrow();
    assertWithMessage(adk)
        .that(Instant.ofEpochMilli(compaction.startTimestamp()))
        .isEqualTo(Instant.parse("2026-11-26T09:00:00.500Z"));
    assertWithMessage(adk)
        .that(Instant.ofEpochMilli(compaction.endTimestamp()))
        .isEqualTo(Instant.parse("2026-11-26T09:30:00.123Z"));
    assertThat(compaction.compactedContent().text()).isEqualTo(text);
  }
}
