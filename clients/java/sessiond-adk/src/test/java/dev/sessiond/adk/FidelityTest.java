package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static com.google.common.truth.Truth.assertWithMessage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
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
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
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
  void theBodyHasTheCanonicalFormWithoutItsDelta() throws Exception {
    Event event = Event.fromJson(resource("full-event.json"));
    JsonNode body = Json.parse(EncodedEvent.of(event, List.of(), false).message().getBodyJson());
    JsonNode expected = Json.parse(event.toJson());
    ((ObjectNode) expected.get("actions")).remove("stateDelta");
    ((ObjectNode) expected).set("customMetadata", Json.parse("{\"k\":\"v\"}"));
    ObjectNode compaction = (ObjectNode) expected.at("/actions/compaction");
    compaction.set("startTimestamp", Json.parse("0.001"));
    compaction.set("endTimestamp", Json.parse("0.002"));
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
