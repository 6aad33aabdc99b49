package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.sessions.GetSessionConfig;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import com.google.adk.sessions.SessionNotFoundException;
import com.google.adk.sessions.State;
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

/** ADK's interface, method by method. */
final class ServiceTest extends ServerTest {

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void initialStateIsSharedByItsPrefixes(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Map<String, Object> state = new HashMap<>();
    state.put("plain", 1);
    state.put("app:theme", "dark");
    state.put("user:name", "Alice");
    state.put("temp:scratch", new Object());
    state.put("nothing", null);
    state.put("gone", State.REMOVED);

    Session created = service.createSession(APP, USER, state, " s1 ").blockingGet();

    // ADK's in-memory service trims it here and nowhere else.
    assertThat(created.id()).isEqualTo(" s1 ");
    assertThat(created.appName()).isEqualTo(APP);
    assertThat(created.userId()).isEqualTo(USER);
    assertThat(created.state())
        .isEqualTo(new State(Map.of("plain", 1, "app:theme", "dark", "user:name", "Alice")));
    assertThat(created.events()).isEmpty();
    Session other = create(service, Map.of());
    assertThat(other.state())
        .isEqualTo(new State(Map.of("app:theme", "dark", "user:name", "Alice")));
    Session bobs = service.createSession(APP, "bob").blockingGet();
    assertThat(bobs.state()).isEqualTo(new State(Map.of("app:theme", "dark")));
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void everyFormOfCreationMakesAnId(String store) throws Exception {
    SessiondSessionService service = connect(store);
    assertThat(service.createSession(APP, USER).blockingGet().id()).isNotEmpty();
    assertThat(service.createSession(APP, USER, Map.of(), "").blockingGet().id()).isNotEmpty();
    assertThat(service.createSession(new SessionKey(APP, USER, "s9")).blockingGet().sessionKey())
        .isEqualTo(new SessionKey(APP, USER, "s9"));
    ConcurrentHashMap<String, Object> state = new ConcurrentHashMap<>(Map.of("k", "v"));
    @SuppressWarnings("deprecation")
    Session concurrent = service.createSession(APP, USER, state, null).blockingGet();
    assertThat(concurrent.state()).containsEntry("k", "v");
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void aTakenIdIsAnError(String store) throws Exception {
    SessiondSessionService service = connect(store);
    service.createSession(APP, USER, Map.of("k", 1), "s1").blockingGet();
    SessiondAlreadyExistsException failure =
        assertThrows(
            SessiondAlreadyExistsException.class,
            () -> service.createSession(APP, USER, Map.of(), "s1").blockingGet());
    assertThat(failure.call().reason()).isEqualTo("SESSION_EXISTS");
    assertThat(get(service, "s1").state()).containsEntry("k", 1);
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void aMissingSessionIsEmptyOrAnErrorOfTheKit(String store) throws Exception {
    SessiondSessionService service = connect(store);
    assertThat(get(service, "missing")).isNull();
    assertThat(get(service, " ")).isNull();
    assertThat(service.listEvents(APP, USER, "missing").blockingGet().events()).isEmpty();
    service.deleteSession(APP, USER, "missing").blockingAwait();
    Session unknown = Session.builder("missing").appName(APP).userId(USER).build();
    SessionNotFoundException failure =
        assertThrows(
            SessionNotFoundException.class,
            () -> service.appendEvent(unknown, message("hi")).blockingGet());
    assertThat(SessiondFailure.find(failure).orElseThrow().reason()).isEqualTo("SESSION_NOT_FOUND");
    assertThat(unknown.events()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void filtersSelectEvents(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of());
    for (int i = 1; i <= 5; i++) {
      Event event = message("e" + i);
      event.setTimestamp(1_000L * i);
      service.appendEvent(session, event).blockingGet();
    }
    assertThat(read(service, session, GetSessionConfig.builder()))
        .containsExactly("e1", "e2", "e3", "e4", "e5")
        .inOrder();
    assertThat(read(service, session, GetSessionConfig.builder().numRecentEvents(2)))
        .containsExactly("e4", "e5")
        .inOrder();
    assertThat(read(service, session, GetSessionConfig.builder().numRecentEvents(0))).isEmpty();
    assertThat(
            read(
                service,
                session,
                GetSessionConfig.builder().afterTimestamp(Instant.ofEpochSecond(3))))
        .containsExactly("e3", "e4", "e5")
        .inOrder();
    assertThat(
            read(
                service,
                session,
                GetSessionConfig.builder()
                    .afterTimestamp(Instant.ofEpochSecond(3))
                    .numRecentEvents(2)))
        .containsExactly("e4", "e5")
        .inOrder();
    assertThat(read(service, session, GetSessionConfig.builder().afterTimestamp(Instant.MAX)))
        .isEmpty();
    assertThat(read(service, session, GetSessionConfig.builder().afterTimestamp(Instant.MIN)))
        .hasSize(5);
    Session byKey = service.getSession(session.sessionKey(), null).blockingGet();
    assertThat(texts(byKey)).hasSize(5);
    assertThat(byKey.lastUpdateTime()).isEqualTo(Instant.ofEpochSecond(5));
  }

  private static List<String> read(
      SessiondSessionService service, Session session, GetSessionConfig.Builder config) {
    return texts(
        service.getSession(APP, USER, session.id(), Optional.of(config.build())).blockingGet());
  }

  @Test
  void longListsComeInPages() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    // More than a page, and more than a message of 4 MiB.
    String large = "x".repeat(5_000);
    List<String> sent = new ArrayList<>();
    for (int i = 0; i < 1_100; i++) {
      sent.add(i + large);
    }
    for (String text : sent) {
      service.appendEvent(session, message(text)).blockingGet();
    }
    assertThat(texts(get(service, session.id()))).isEqualTo(sent);
    assertThat(
            service.listEvents(APP, USER, session.id()).blockingGet().events().stream()
                .map(Event::stringifyContent)
                .toList())
        .isEqualTo(sent);
    assertThat(service.storedEvents(session.sessionKey(), 1_090, false).count().blockingGet())
        .isEqualTo(10);
  }

  @Test
  void sessionsAreListedWithStateAndWithoutEvents() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    for (int i = 0; i < 1_050; i++) {
      service.createSession(APP, USER, Map.of("i", i), "s" + i).blockingGet();
    }
    service.createSession(APP, "bob", Map.of("user:x", 1), "bobs").blockingGet();
    Session first = get(service, "s0");
    Event late = event("hi", Map.of("user:seen", true));
    late.setTimestamp(Instant.now().plusSeconds(3600).toEpochMilli());
    service.appendEvent(first, late).blockingGet();

    List<Session> listed = service.listSessions(APP, USER).blockingGet().sessions();

    assertThat(listed).hasSize(1_050);
    Session last = listed.get(listed.size() - 1);
    assertThat(last.id()).isEqualTo("s0");
    assertThat(last.events()).isEmpty();
    assertThat(last.state()).isEqualTo(new State(Map.of("i", 0, "user:seen", true)));
    assertThat(service.listSessions(APP, "nobody").blockingGet().sessions()).isEmpty();
    // Twice from one Single: nothing is kept between subscriptions.
    var list = service.listSessions(APP, "bob");
    assertThat(list.blockingGet().sessionIds()).containsExactly("bobs");
    service.deleteSession(APP, "bob", "bobs").blockingAwait();
    assertThat(list.blockingGet().sessionIds()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void anAppendUpdatesTheCallersSession(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of("old", 1, "gone", 2));
    Map<String, Object> delta = new HashMap<>();
    delta.put("new", Map.of("nested", List.of(1, 2.5, "three")));
    delta.put("app:a", 1);
    delta.put("user:u", 2);
    delta.put("temp:t", 3);
    delta.put("gone", State.REMOVED);
    Event event = event("hi", delta);

    assertThat(service.appendEvent(session, event).blockingGet()).isSameInstanceAs(event);

    assertThat(session.events()).containsExactly(event);
    assertThat(session.state().get("new")).isSameInstanceAs(delta.get("new"));
    assertThat(session.state()).containsEntry("temp:t", 3);
    assertThat(session.state()).doesNotContainKey("gone");
    assertThat(event.actions().stateDelta()).doesNotContainKey("temp:t");
    assertThat(session.lastUpdateTime()).isEqualTo(Instant.ofEpochMilli(event.timestamp()));
    Session read = get(service, session.id());
    assertThat(read.state())
        .isEqualTo(
            new State(
                Map.of(
                    "old",
                    1,
                    "new",
                    Map.of("nested", List.of(1, 2.5, "three")),
                    "app:a",
                    1,
                    "user:u",
                    2)));
    Event stored = read.events().get(0);
    assertThat(stored.actions().stateDelta().get("gone")).isSameInstanceAs(State.REMOVED);
    assertThat(stored.toJson()).isEqualTo(event.toJson());
    assertThat(create(service, Map.of()).state())
        .isEqualTo(new State(Map.of("app:a", 1, "user:u", 2)));
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void subscribingTwiceAppendsOnce(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of());
    Event withoutId = Event.builder().author("user").build();
    var append = service.appendEvent(session, withoutId);
    // Lazy: nothing is sent before the subscription.
    assertThat(get(service, session.id()).events()).isEmpty();

    append.blockingGet();
    append.blockingGet();
    service.appendEvent(session, withoutId).blockingGet();

    assertThat(session.events()).containsExactly(withoutId);
    assertThat(get(service, session.id()).events()).hasSize(1);
    Event other = message("other content");
    other.setId(withoutId.id());
    SessiondAlreadyExistsException failure =
        assertThrows(
            SessiondAlreadyExistsException.class,
            () -> service.appendEvent(session, other).blockingGet());
    assertThat(failure.call().reason()).isEqualTo("EVENT_ID_REUSED");
  }

  @Test
  void aPartialEventChangesNothing() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    Event partial = event("fragm", Map.of("k", 1)).toBuilder().partial(true).build();
    service.appendEvent(session, partial).blockingGet();
    service.appendEvent(session, partial, List.of(new Operation.Increment("n", 1))).blockingGet();
    assertThat(session.events()).isEmpty();
    assertThat(session.state()).isEmpty();
    assertThat(get(service, session.id()).events()).isEmpty();
  }

  @Test
  void valuesWithoutJsonAreRefusedBeforeAnythingIsSent() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    for (Object value :
        List.of(Double.NaN, Float.NEGATIVE_INFINITY, new Object(), Map.of("a", Double.NaN))) {
      StateValueException failure =
          assertThrows(
              StateValueException.class,
              () -> service.appendEvent(session, event("hi", Map.of("bad", value))).blockingGet());
      assertThat(failure.key()).isEqualTo("bad");
      assertThat(failure).hasMessageThat().contains("'bad'");
    }
    List<Object> circle = new ArrayList<>();
    circle.add(circle);
    assertThrows(
        StateValueException.class,
        () -> service.appendEvent(session, event("hi", Map.of("bad", circle))).blockingGet());
    assertThat(session.events()).isEmpty();
    assertThat(get(service, session.id()).events()).isEmpty();
  }

  @Test
  void theServersReasonIsReachable() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    SessiondInvalidException failure =
        assertThrows(
            SessiondInvalidException.class,
            () -> service.createSession(APP, USER, Map.of("k".repeat(600), 1), null).blockingGet());
    FailedCall call = failure.call();
    assertThat(call.reason()).isEqualTo("BAD_KEY");
    assertThat(call.metadata()).containsEntry("limit", "512");
    assertThat(call.violations()).isNotEmpty();
    assertThat(call.attempts()).isEqualTo(1);
    assertThat(failure).hasMessageThat().contains("[BAD_KEY]");
  }

  @Test
  void nullArgumentsFailAtTheCall() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    assertThrows(NullPointerException.class, () -> service.createSession(null, USER));
    assertThrows(NullPointerException.class, () -> service.deleteSession(APP, USER, null));
    assertThrows(NullPointerException.class, () -> service.appendEvent(null, message("x")));
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void othersChangesAreMergedIntoTheCallersState(String store) throws Exception {
    SessiondSessionService service = connect(store);
    create(service, Map.of());
    Session mine = create(service, Map.of("removed", 1, "changed", 1, "kept", 1));
    Session theirs = get(service, mine.id());
    service
        .appendEvent(
            theirs, event("theirs", Map.of("removed", State.REMOVED, "changed", 2, "app:x", 3)))
        .blockingGet();
    // A tool has written this, and its event is not appended yet.
    mine.state().put("uncommitted", "local");
    mine.state().put("temp:t", new Object());

    service.appendEvent(mine, event("mine", Map.of("own", 4))).blockingGet();

    assertThat(mine.state()).doesNotContainKey("removed");
    assertThat(mine.state()).containsEntry("changed", 2);
    assertThat(mine.state()).containsEntry("app:x", 3);
    assertThat(mine.state()).containsEntry("own", 4);
    assertThat(mine.state()).containsEntry("uncommitted", "local");
    assertThat(mine.state()).containsKey("temp:t");
    assertThat(texts(mine)).containsExactly("mine");
    service.refresh(mine).blockingAwait();
    assertThat(texts(mine)).containsExactly("theirs", "mine").inOrder();
    assertThat(mine.state()).doesNotContainKey("uncommitted");
    assertThat(mine.state()).containsKey("temp:t");
  }

  @Test
  void eventsWithoutActionsOrTextsAreStored() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    Event event = Event.builder().build();
    event.setActions(new EventActions());
    service.appendEvent(session, event).blockingGet();
    Event read = get(service, session.id()).events().get(0);
    assertThat(read.toJson()).isEqualTo(event.toJson());
    assertThat(read.author()).isNull();
  }
}
