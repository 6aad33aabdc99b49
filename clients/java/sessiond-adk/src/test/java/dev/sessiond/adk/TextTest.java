package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.agents.LlmAgent;
import com.google.adk.events.Event;
import com.google.adk.runner.Runner;
import com.google.adk.sessions.Session;
import com.google.adk.testing.TestLlm;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Text that was cut within a surrogate pair, as values and in bodies. */
final class TextTest extends ServerTest {

  /** The first half of an emoji. */
  private static final String HALF = "\ud83d";

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void anAnswerThatWasCutIsStoredInTheEventAndByItsOutputKey(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of());
    LlmAgent agent =
        LlmAgent.builder()
            .name("a")
            .model(TestLlm.create("cut " + HALF, "whole"))
            .outputKey("answer")
            .build();
    Runner runner = Runner.builder().agent(agent).appName(APP).sessionService(service).build();
    try (Logged logged = new Logged(Mender.class)) {
      for (String text : List.of("one", "two")) {
        runner
            .runAsync(USER, session.id(), Content.fromParts(Part.fromText(text)))
            .blockingSubscribe();
        if (text.equals("one")) {
          assertThat(get(service, session.id()).state()).containsEntry("answer", "cut \ufffd");
        }
      }
      assertThat(logged.messages()).hasSize(1);
      assertThat(logged.messages().get(0)).contains("'answer'");
      assertThat(logged.messages().get(0)).contains("the body");
    }
    assertThat(texts(get(service, session.id())))
        .containsExactly("one", "cut \ufffd", "two", "whole")
        .inOrder();
    assertThat(get(service, session.id()).state()).containsExactly("answer", "whole");
  }

  @Test
  void valuesOfEveryWriteAreMendedAndNamed() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    try (Logged logged = new Logged(Mender.class)) {
      Session session = create(service, Map.of("c", HALF, "whole", "😀"));
      Event event = event("x", Map.of("k", Map.of("in", List.of(HALF + "😀", "a" + HALF + "b"))));
      service.appendEvent(session, event).blockingGet();
      // Comparing values again is no reason to warn again.
      service.appendEvent(session, message("y")).blockingGet();
      service.appendToList(session, "l", List.of(HALF), 0).blockingGet();
      service.setIfAbsent(session, "s", HALF).blockingGet();
      service.merge(session, "m", Map.of("in", HALF)).blockingGet();
      service.updateState(Scope.app(APP), Delta.of(Map.of("app:u", HALF))).blockingGet();
      assertThat(get(service, session.id()).state())
          .isEqualTo(
              new com.google.adk.sessions.State(
                  Map.of(
                      "c", "\ufffd",
                      "whole", "😀",
                      "k", Map.of("in", List.of("\ufffd😀", "a\ufffdb")),
                      "l", List.of("\ufffd"),
                      "s", "\ufffd",
                      "m", Map.of("in", "\ufffd"),
                      "app:u", "\ufffd")));
      List<String> messages = logged.messages();
      assertThat(messages).hasSize(6);
      for (int i = 0; i < messages.size(); i++) {
        String key = List.of("c", "k", "l", "s", "m", "app:u").get(i);
        assertThat(messages.get(i)).endsWith("'" + key + "'");
      }
    }
  }

  @Test
  void aMendedEventCanBeRepeated() throws Exception {
    TestServer server = serve(MEMORY);
    for (Stale stale : Stale.values()) {
      SessiondSessionService service = closing(server.service().stale(stale).build());
      Session session = create(service, Map.of());
      Event event = event("cut " + HALF, Map.of("k", HALF));
      service.appendEvent(session, event).blockingGet();
      service.appendEvent(session, event).blockingGet();
      service.appendEvent(session, event("y", Map.of("k", "z"))).blockingGet();
      assertThat(texts(get(service, session.id()))).containsExactly("cut \ufffd", "y").inOrder();
    }
  }
}
