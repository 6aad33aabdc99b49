package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static com.google.common.truth.Truth.assertWithMessage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.events.EventCompaction;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import com.google.genai.types.FunctionResponse;
import com.google.genai.types.Part;
import com.google.protobuf.Timestamp;
import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.EventServiceGrpc;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.ListEventsRequest;
import dev.sessiond.v1.StateDelta;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Events come back as they went in, and events of other ADKs as far as this one can hold them. */
final class FidelityTest extends ServerTest {

  private static String resource(String name) throws IOException {
    try (InputStream stream = FidelityTest.class.getResourceAsStream(name)) {
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8).strip();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void anEventWithEveryFieldComesBackEqual(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of());
    Event event = Event.fromJson(resource("full-event.json"));
    for (var method : Event.class.getMethods()) {
      if (method.getReturnType() == Optional.class && method.getParameterCount() == 0) {
        assertWithMessage(method.getName()).that((Optional<?>) method.invoke(event)).isPresent();
      }
    }
    for (var method : EventActions.class.getMethods()) {
      if (method.getReturnType() == Optional.class && method.getParameterCount() == 0) {
        assertWithMessage(method.getName())
            .that((Optional<?>) method.invoke(event.actions()))
            .isPresent();
      }
      if (method.getReturnType() == Map.class && method.getParameterCount() == 0) {
        assertWithMessage(method.getName())
            .that((Map<?, ?>) method.invoke(event.actions()))
            .isNotEmpty();
      }
    }
    String sent = event.toJson();

    service.appendEvent(session, event).blockingGet();

    assertThat(event.toJson()).isEqualTo(sent);
    assertThat(Json.parse(get(service, session.id()).events().get(0).toJson()))
        .isEqualTo(Json.parse(sent));
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void valuesKeepTheirTypes(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Map<String, Object> values =
        Map.of(
            "int",
            1,
            "long",
            1L << 60,
            "big",
            BigInteger.TWO.pow(200),
            "double",
            0.1,
            "whole",
            2.0,
            "text",
            "ü\u2028😀\"\\",
            "list",
            List.of(true, List.of(), Map.of()),
            "",
            3);
    Map<String, Object> stored = new java.util.HashMap<>(values);
    stored.remove("");
    Session session = create(service, Map.of());
    service.appendEvent(session, event("x", stored)).blockingGet();
    assertThat(get(service, session.id()).state()).isEqualTo(new State(stored));
    assertThat(get(service, session.id()).events().get(0).actions().stateDelta()).isEqualTo(stored);
  }

  @Test
  void timesOfStateValuesAreWrittenAsTheOtherLanguagesDo() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    service
        .appendEvent(session, event("x", Map.of("t", java.time.Instant.ofEpochMilli(5))))
        .blockingGet();
    assertThat(get(service, session.id()).state()).containsEntry("t", "1970-01-01T00:00:00.005Z");
  }

  @Test
  void theBodyIsTheKitsOwnJsonWithoutItsDelta() throws Exception {
    Event event = Event.fromJson(resource("full-event.json"));
    JsonNode body = Json.parse(EncodedEvent.of(event, List.of(), false).message().getBodyJson());
    JsonNode expected = Json.parse(event.toJson());
    ((com.fasterxml.jackson.databind.node.ObjectNode) expected.get("actions")).remove("stateDelta");
    assertThat(body).isEqualTo(expected);
  }

  @Test
  void loneSurrogatesOfABodyAreReplaced() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    // A text that was cut between the halves of an emoji.
    String text = "a" + "😀".charAt(0) + " " + "😀".charAt(1) + "b 😀";
    Event event = event(text, Map.of());
    service.appendEvent(session, event).blockingGet();
    service.appendEvent(session, event).blockingGet();
    List<Event> stored = get(service, session.id()).events();
    assertThat(stored).hasSize(1);
    assertThat(stored.get(0).stringifyContent()).isEqualTo("a\ufffd \ufffdb 😀");
    assertThat(event.stringifyContent()).isEqualTo(text);
  }

  // Events of other ADKs.

  private Event readForeign(String body) throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server);
    Session session = create(service, Map.of("gone", 1));
    dev.sessiond.v1.Event sent =
        dev.sessiond.v1.Event.newBuilder()
            .setEventId("foreign")
            .setInvocationId("i9")
            .setAuthor("other")
            .setBranch("a.b")
            .setEventTime(Timestamp.newBuilder().setSeconds(1_700_000_000).setNanos(5_999_999))
            .setStateDelta(
                StateDelta.newBuilder().setSetJson("{\"n\":null,\"k\":1}").addRemove("gone"))
            .setBodyJson(body)
            .build();
    ManagedChannel channel =
        Grpc.newChannelBuilder(server.address(), InsecureChannelCredentials.create()).build();
    try {
      var key = Messages.key(APP, USER, session.id());
      EventServiceGrpc.EventServiceBlockingStub stub = EventServiceGrpc.newBlockingStub(channel);
      AppendEventRequest request =
          AppendEventRequest.newBuilder().setKey(key).setEvent(sent).build();
      stub.appendEvent(request);
      Event read = get(service, session.id()).events().get(0);
      assertThat(read.id()).isEqualTo("foreign");
      assertThat(read.invocationId()).isEqualTo("i9");
      assertThat(read.author()).isEqualTo("other");
      assertThat(read.branch()).hasValue("a.b");
      assertThat(read.timestamp()).isEqualTo(1_700_000_000_005L);
      assertThat(read.actions().stateDelta())
          .containsExactly("k", 1, "n", State.REMOVED, "gone", State.REMOVED);
      // What this ADK cannot hold stays in the store, byte for byte.
      String stored =
          stub.listEvents(
                  ListEventsRequest.newBuilder()
                      .setKey(key)
                      .setJsonForm(JsonForm.JSON_FORM_TEXT)
                      .build())
              .getEvents(0)
              .getBodyJson();
      assertThat(stored).isEqualTo(body);
      return read;
    } finally {
      channel.shutdownNow();
    }
  }

  @Test
  void anEventOfPythonIsRead() throws Exception {
    Event read = readForeign(resource("python-event.json"));
    assertThat(read.stringifyContent()).startsWith("Will it rain?");
    assertThat(
            read.content()
                .orElseThrow()
                .parts()
                .orElseThrow()
                .get(1)
                .inlineData()
                .orElseThrow()
                .data())
        .hasValue(new byte[] {(byte) 0xfb, (byte) 0xff, (byte) 0xfe});
    assertThat(read.functionCalls().get(0).args().orElseThrow())
        .containsExactly("data", "a-b_c", "n", 1);
    assertThat(read.customMetadata().orElseThrow()).hasSize(4);
    assertThat(read.customMetadata().orElseThrow().get(0).stringValue()).hasValue("text");
    assertThat(read.customMetadata().orElseThrow().get(1).numericValue()).hasValue(2.5f);
    assertThat(read.customMetadata().orElseThrow().get(2).stringListValue().orElseThrow().values())
        .hasValue(List.of("x", "y"));
    assertThat(read.customMetadata().orElseThrow().get(3).stringValue()).hasValue("{\"a\":1}");
    assertThat(read.actions().escalate()).hasValue(true);
    assertThat(read.actions().requestedAuthConfigs()).isEmpty();
    assertThat(read.turnComplete()).hasValue(true);
  }

  @Test
  void anEventOfGoIsRead() throws Exception {
    Event read = readForeign(resource("go-event.json"));
    assertThat(read.stringifyContent()).isEqualTo("<b>hi</b>");
    assertThat(read.usageMetadata().orElseThrow().totalTokenCount()).hasValue(7);
    // A version beyond an int: the member is left out, the rest stays.
    assertThat(read.actions().artifactDelta()).containsExactly("ok.txt", 1);
  }

  @Test
  void anEventOfTypeScriptIsRead() throws Exception {
    Event read = readForeign(resource("typescript-event.json"));
    assertThat(read.stringifyContent()).isEqualTo("hello");
    assertThat(read.longRunningToolIds().orElseThrow()).isEmpty();
  }

  @Test
  void anEventOfRustIsRead() throws Exception {
    Event read = readForeign(resource("rust-event.json"));
    assertThat(read.stringifyContent()).startsWith("heard");
    assertThat(read.functionCalls().get(0).name()).hasValue("f");
    assertThat(read.functionCalls().get(0).id()).hasValue("c1");
    assertThat(read.functionResponses().get(0).name()).hasValue("f");
    List<Part> parts = read.content().orElseThrow().parts().orElseThrow();
    assertThat(parts).hasSize(6);
    assertThat(parts.get(1).thoughtSignature())
        .hasValue(new byte[] {(byte) 0xfb, (byte) 0xff, (byte) 0xfe});
    assertThat(parts.get(3).text()).hasValue("hm");
    assertThat(parts.get(3).thought()).hasValue(true);
    assertThat(parts.get(3).thoughtSignature()).hasValue(new byte[] {'s', 'i', 'g'});
    assertThat(parts.get(4).inlineData().orElseThrow().mimeType()).hasValue("image/png");
    assertThat(parts.get(4).inlineData().orElseThrow().data())
        .hasValue(new byte[] {0, 127, (byte) 0xff});
    assertThat(parts.get(5).fileData().orElseThrow().mimeType()).hasValue("text/plain");
    assertThat(parts.get(5).fileData().orElseThrow().fileUri()).hasValue("gs://b/f");
    assertThat(read.turnComplete()).hasValue(true);
    assertThat(read.errorMessage()).hasValue("none");
    assertThat(read.actions().artifactDelta()).containsExactly("a", 1);
  }

  @ParameterizedTest
  @ValueSource(strings = {"\"sunny\"", "[1,2]", "7", "null"})
  void aToolResultOfRustThatIsNoObjectIsWrapped(String result) throws Exception {
    String body =
        """
        {"invocation_id": "x", "content": {"role": "function", "parts": [
        {"functionResponse": {"name": "f", "response": %s}, "id": "c1"},
        {"functionResponse": {"name": "f", "response": %s}}]}}\
        """;
    Event read = readForeign(body.formatted(result, result));
    Object value = new ObjectMapper().readValue(result, Object.class);
    for (FunctionResponse response : read.functionResponses()) {
      assertThat(response.response().orElseThrow()).containsExactly("result", value);
    }
    assertThat(read.functionResponses()).hasSize(2);
    assertThat(read.functionResponses().get(0).id()).hasValue("c1");
    assertThat(read.functionResponses().get(1).id()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    // Python. ADK compares these times with those of events, so both are rounded alike.
    "1700000000.0, 1699999000.25, 1741218714.258, 1699999000250, 1741218714257",
    "1700000000.0, 0.001, 2e12, 1, 2000000000000000",
    ", 1699999000.25, 1699999999, 1699999000250, 1699999999000",
    "'\"x\"', 1699999000.25, 1699999999, 1699999000250, 1699999999000",
    // Java.
    "1700000000000, 1, 1699999999999, 1, 1699999999999",
    ", 1699999000250, 1699999999999, 1699999000250, 1699999999999",
  })
  void timesOfACompactionAreMilliseconds(
      @Nullable String timestamp, String start, String end, long startMillis, long endMillis) {
    String body =
        """
        {"timestamp": %s, "actions": {"compaction": {"startTimestamp": %s, "endTimestamp": %s,
        "compactedContent": {"role": "model", "parts": [{"text": "summary"}]}}}}
        """;
    dev.sessiond.v1.Event stored =
        dev.sessiond.v1.Event.newBuilder()
            .setEventTime(Timestamp.newBuilder().setSeconds(1_700_000_000))
            .setBodyJson(body.formatted(timestamp, start, end))
            .build();
    EventCompaction read = new EventDecoder().decode(stored).actions().compaction().orElseThrow();
    assertThat(read.startTimestamp()).isEqualTo(startMillis);
    assertThat(read.endTimestamp()).isEqualTo(endMillis);
    assertThat(read.compactedContent().text()).isEqualTo("summary");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{}",
        "{\"content\":\"a mere text\"}",
        "{\"content\":{\"parts\":[{\"text\":[1]},{\"inlineData\":{\"data\":\"*\"}}]}}",
        "{\"actions\":[1]}",
        "{\"timestamp\":1700000000.005,\"actions\":{\"compaction\":{\"startTimestamp\":\"x\"}}}",
        "{\"timestamp\":1700000000.005,\"actions\":{\"compaction\":{\"endTimestamp\":1e300}}}",
        "{\"content\":{\"parts\":[{\"mime_type\":\"x\",\"data\":[256]},{\"thinking\":1,\"signature\":2}]}}",
        "{\"actions\":null,\"customMetadata\":7,\"timestamp\":\"yesterday\"}",
        "{\"usageMetadata\":{\"totalTokenCount\":99999999999999},\"avgLogprobs\":\"NaN\"}",
        "{\"actions\":{\"artifactDelta\":{\"a\":null,\"b\":1e300}},\"future\":{\"x\":[{}]}}",
        "{\"partial\":{},\"longRunningToolIds\":[null],\"errorCode\":{}}"
      })
  void aBodyOfAnyShapeHidesNoSession(String body) throws Exception {
    readForeign(body);
  }

  @Test
  void oneWarningNamesWhatIsLeftOut() throws Exception {
    List<String> logged = new ArrayList<>();
    Logger logger = Logger.getLogger(EventDecoder.class.getName());
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord record) {
            logged.add(record.getMessage());
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    logger.addHandler(handler);
    try {
      EventDecoder decoder = new EventDecoder();
      dev.sessiond.v1.Event stored =
          dev.sessiond.v1.Event.newBuilder()
              .setEventId("e1")
              .setBodyJson("{\"future\":1,\"nothing\":null,\"actions\":{\"escalate\":[]}}")
              .build();
      assertThat(decoder.decode(stored).actions().escalate()).isEmpty();
      decoder.decode(stored);
    } finally {
      logger.removeHandler(handler);
    }
    assertThat(logged).hasSize(1);
    assertThat(logged.get(0)).contains("e1");
    assertThat(logged.get(0)).contains("future");
    assertThat(logged.get(0)).contains("escalate");
    assertThat(logged.get(0)).doesNotContain("nothing");
  }
}
