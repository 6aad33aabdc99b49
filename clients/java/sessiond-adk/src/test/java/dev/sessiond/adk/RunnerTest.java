package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.agents.LlmAgent;
import com.google.adk.agents.ParallelAgent;
import com.google.adk.agents.RunConfig;
import com.google.adk.events.Event;
import com.google.adk.runner.Runner;
import com.google.adk.sessions.BaseSessionService;
import com.google.adk.sessions.InMemorySessionService;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import com.google.adk.testing.TestLlm;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** ADK's runner with this service, compared with its in-memory service. */
final class RunnerTest extends ServerTest {

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void aConversationIsTheSameAsInMemory(String store) throws Exception {
    SessiondSessionService ours = connect(store);
    BaseSessionService theirs = new InMemorySessionService();
    List<List<Map<String, Object>>> events = new ArrayList<>();
    List<Map<String, Object>> states = new ArrayList<>();
    for (BaseSessionService service : List.of(theirs, ours)) {
      // In memory, prefixed keys of a session's creation are not shared: this session has none.
      service.createSession(APP, USER, Map.of("draft", "x", "kept", 1), "s1").blockingGet();
      Conversation conversation = new Conversation(service);
      conversation.turn("s1", "hello");
      conversation.turn("s1", "again");
      Session read = service.getSession(APP, USER, "s1", Optional.empty()).blockingGet();
      events.add(read.events().stream().map(Conversation::comparable).toList());
      Map<String, Object> state = new HashMap<>(read.state());
      // In memory, temp: keys are stored and seen by later turns.
      state.keySet().removeIf(Messages::isTemp);
      states.add(state);
      assertThat(service.listEvents(APP, USER, "s1").blockingGet().events())
          .hasSize(read.events().size());
    }
    assertThat(events.get(1)).isEqualTo(events.get(0));
    assertThat(events.get(1)).hasSize(12);
    assertThat(states.get(1)).isEqualTo(states.get(0));
    assertThat(states.get(1))
        .containsExactly(
            "kept",
            1,
            "city",
            "Oslo1",
            "app:bookings",
            List.of("Oslo1"),
            "user:name",
            "Alice",
            "last_answer",
            "booked 1",
            "callback",
            "before",
            "user:turns_done",
            true);
    assertThat(get(ours, "s1").state().keySet().stream().anyMatch(Messages::isTemp)).isFalse();
  }

  @Test
  void aStateDeltaOfARunIsStored() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    LlmAgent agent = LlmAgent.builder().name("a").model(TestLlm.create("hi")).build();
    Runner runner = runner(service, agent);
    runner
        .runAsync(
            USER,
            session.id(),
            Content.fromParts(Part.fromText("hello")),
            RunConfig.builder().build(),
            Map.of("user:lang", "no"))
        .blockingSubscribe();
    assertThat(get(service, session.id()).state()).containsExactly("user:lang", "no");
    assertThat(texts(get(service, session.id()))).containsExactly("hello", "hi").inOrder();
  }

  @Test
  void parallelBranchesAppendInTurnAndLoseNothing() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    List<LlmAgent> branches = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      branches.add(
          LlmAgent.builder()
              .name("branch" + i)
              .model(TestLlm.create("answer " + i))
              .outputKey("out" + i)
              .build());
    }
    ParallelAgent agent = ParallelAgent.builder().name("all").subAgents(branches).build();
    runner(service, agent)
        .runAsync(USER, session.id(), Content.fromParts(Part.fromText("go")))
        .blockingSubscribe();
    Session read = get(service, session.id());
    assertThat(read.events()).hasSize(9);
    for (int i = 0; i < 8; i++) {
      assertThat(read.state()).containsEntry("out" + i, "answer " + i);
    }
  }

  // The examples of the state management guide.

  @Test
  void theGuideCreatesASessionWithAConcurrentMap() throws Exception {
    SessiondSessionService sessionService = connect(MEMORY);
    ConcurrentHashMap<String, Object> initialState = new ConcurrentHashMap<>();
    initialState.put("user_preference_theme", "dark");
    initialState.put("cart_items", List.of("book"));
    @SuppressWarnings("deprecation")
    Session exampleSession =
        sessionService.createSession("my_app", "example_user", initialState, null).blockingGet();
    assertThat(exampleSession.state()).containsExactlyEntriesIn(initialState);
    assertThat(exampleSession.lastUpdateTime()).isGreaterThan(Instant.now().minusSeconds(600));
    sessionService.deleteSession("my_app", "example_user", exampleSession.id()).blockingAwait();
  }

  @Test
  void theGuideSavesAGreetingByItsOutputKey() throws Exception {
    SessiondSessionService sessionService = connect(MEMORY);
    LlmAgent greetingAgent =
        LlmAgent.builder()
            .name("Greeter")
            .model(TestLlm.create("Hello there!"))
            .instruction("Generate a short, friendly greeting.")
            .outputKey("last_greeting")
            .build();
    Session session =
        sessionService.createSession(APP, "user1", Map.of(), "session1").blockingGet();
    runner(sessionService, greetingAgent)
        .runAsync("user1", session.id(), Content.fromParts(Part.fromText("Hello")))
        .blockingSubscribe();
    Session updated =
        sessionService.getSession(APP, "user1", "session1", Optional.empty()).blockingGet();
    assertThat(updated.state()).containsEntry("last_greeting", "Hello there!");
  }

  @Test
  void theGuideChangesStateByAnEventsDelta() throws Exception {
    SessiondSessionService sessionService = connect(MEMORY);
    ConcurrentHashMap<String, Object> initial = new ConcurrentHashMap<>();
    initial.put("user:login_count", 0);
    initial.put("task_status", "idle");
    @SuppressWarnings("deprecation")
    Session session = sessionService.createSession(APP, "user2", initial, "session2").blockingGet();
    Map<String, Object> stateChanges = new HashMap<>();
    stateChanges.put("task_status", "active");
    stateChanges.put("user:login_count", (Integer) session.state().get("user:login_count") + 1);
    stateChanges.put("user:last_login_ts", Instant.now().toEpochMilli());
    stateChanges.put("temp:validation_needed", true);
    Event systemEvent = event("", stateChanges).toBuilder().author("system").build();

    sessionService.appendEvent(session, systemEvent).blockingGet();

    assertThat(session.state()).containsEntry("temp:validation_needed", true);
    Session updated =
        sessionService.getSession(APP, "user2", "session2", Optional.empty()).blockingGet();
    assertThat(updated.state()).containsEntry("user:login_count", 1);
    assertThat(updated.state()).containsEntry("task_status", "active");
    assertThat(updated.state())
        .containsEntry("user:last_login_ts", stateChanges.get("user:last_login_ts"));
    assertThat(updated.state()).doesNotContainKey("temp:validation_needed");
    // In memory, a session's creation does not share its prefixed keys.
    assertThat(sessionService.createSession(APP, "user2").blockingGet().state())
        .containsEntry("user:login_count", 1);
  }

  @Test
  void theGuideChangesStateInACallback() throws Exception {
    SessiondSessionService sessionService = connect(MEMORY);
    Session session = create(sessionService, Map.of("user_action_count", 4, "obsolete", true));
    LlmAgent agent =
        LlmAgent.builder()
            .name("counter")
            .model(TestLlm.create("done"))
            .afterAgentCallbackSync(
                context -> {
                  State state = context.state();
                  state.put("user_action_count", (Integer) state.get("user_action_count") + 1);
                  state.put("temp:last_operation_status", "success");
                  state.remove("obsolete");
                  return Optional.empty();
                })
            .build();
    runner(sessionService, agent)
        .runAsync(USER, session.id(), Content.fromParts(Part.fromText("count")))
        .blockingSubscribe();
    assertThat(get(sessionService, session.id()).state()).containsExactly("user_action_count", 5);
  }

  private static Runner runner(BaseSessionService service, com.google.adk.agents.BaseAgent agent) {
    return Runner.builder().agent(agent).appName(APP).sessionService(service).build();
  }
}
