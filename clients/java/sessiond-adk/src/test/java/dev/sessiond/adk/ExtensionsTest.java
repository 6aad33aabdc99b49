package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionNotFoundException;
import com.google.adk.sessions.State;
import io.reactivex.rxjava3.core.Flowable;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the service offers beyond ADK's interface. */
final class ExtensionsTest extends ServerTest {

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void operationsAnswerWithTheResultOfTheirCommit(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of("n", 1));
    assertThat(service.increment(session, "n", 41).blockingGet()).isEqualTo(42);
    assertThat(service.incrementDouble(session, "n", 0.5).blockingGet()).isEqualTo(42.5);
    assertThat(service.appendToList(session, "user:l", List.of(1, 2, 3), 2).blockingGet())
        .isEqualTo(List.of(2, 3));
    assertThat(service.setIfAbsent(session, "lang", "en").blockingGet()).isEqualTo("en");
    assertThat(service.setIfAbsent(session, "lang", "no").blockingGet()).isEqualTo("en");
    Map<String, Object> patch = new HashMap<>(Map.of("city", "Oslo"));
    patch.put("street", null);
    assertThat(service.merge(session, "app:profile", patch).blockingGet())
        .isEqualTo(Map.of("city", "Oslo"));
    service.remove(session, "lang", "missing").blockingAwait();
    assertThat(session.state())
        .containsExactly("n", 42.5, "user:l", List.of(2, 3), "app:profile", Map.of("city", "Oslo"));
    assertThat(get(service, session.id()).state()).isEqualTo(session.state());
    assertThat(session.events().get(0).author()).isEqualTo("system");
    SessiondException failure =
        assertThrows(
            SessiondException.class, () -> service.increment(session, "user:l", 1).blockingGet());
    assertThat(failure.call().reason()).isEqualTo("TYPE_MISMATCH");
    assertThrows(
        StateValueException.class,
        () -> service.incrementDouble(session, "n", Double.NaN).blockingGet());
    assertThrows(IllegalArgumentException.class, () -> service.increment(session, "temp:n", 1));
  }

  @Test
  void concurrentIncrementsAreAllCounted() throws Exception {
    SessiondSessionService service = connect(SQLITE);
    Session shared = create(service, Map.of());
    Set<Number> sums =
        Flowable.range(0, 200)
            .flatMapSingle(
                i ->
                    service.increment(i % 2 == 0 ? shared : get(service, shared.id()), "user:n", 1))
            .toList()
            .blockingGet()
            .stream()
            .collect(Collectors.toSet());
    assertThat(sums).hasSize(200);
    assertThat(get(service, shared.id()).state()).containsEntry("user:n", 200);
  }

  @Test
  void operationsShareTheCommitOfAnEvent() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of("x", 1));
    Event event = event("hi", Map.of("y", 1));
    List<Operation> operations =
        List.of(new Operation.Increment("app:tickets", 2), new Operation.Remove("x"));
    service.appendEvent(session, event, operations).blockingGet();
    service.appendEvent(session, event, operations).blockingGet();
    assertThat(session.state()).containsExactly("y", 1, "app:tickets", 2);
    assertThat(event.actions().stateDelta())
        .containsExactly("y", 1, "app:tickets", 2, "x", State.REMOVED);
    assertThat(session.events()).hasSize(1);
    assertThat(get(service, session.id()).state()).isEqualTo(session.state());
  }

  @Test
  void stateIsChangedWithoutASession() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Scope app = Scope.app(APP);
    Scope user = Scope.user(APP, USER);
    service.updateState(app, Delta.of(Map.of("app:theme", "dark", "app:old", 1))).blockingGet();
    assertThat(
            service
                .updateState(
                    user,
                    new Delta(
                        Map.of("user:plan", "pro", "app:old", State.REMOVED),
                        List.of(new Operation.Increment("user:n", 3))))
                .blockingGet())
        .containsExactly("app:theme", "dark", "user:plan", "pro", "user:n", 3);
    assertThat(service.getState(app).blockingGet()).containsExactly("app:theme", "dark");
    assertThat(service.getState(Scope.user(APP, "bob")).blockingGet())
        .containsExactly("app:theme", "dark");
    SessiondInvalidException failure =
        assertThrows(
            SessiondInvalidException.class,
            () -> service.updateState(app, Delta.of(Map.of("user:x", 1))).blockingGet());
    assertThat(failure.call().reason()).isEqualTo("KEY_OUTSIDE_SCOPE");
    assertThrows(IllegalArgumentException.class, () -> Scope.user(APP, ""));
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void thePastIsReadForkedAndReturnedTo(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of("n", 0));
    for (int i = 1; i <= 4; i++) {
      service.appendEvent(session, event("e" + i, Map.of("n", i, "new" + i, true))).blockingGet();
    }
    Session past = service.getSessionAsOf(session.sessionKey(), 2).blockingGet();
    assertThat(texts(past)).containsExactly("e1", "e2").inOrder();
    assertThat(past.state()).containsExactly("n", 2, "new1", true, "new2", true);

    Session fork = service.forkSession(session.sessionKey(), 3L, "fork").blockingGet();
    assertThat(fork.id()).isEqualTo("fork");
    assertThat(texts(get(service, "fork"))).containsExactly("e1", "e2", "e3");
    assertThat(fork.state()).containsEntry("n", 3);
    assertThrows(
        SessiondAlreadyExistsException.class,
        () -> service.forkSession(session.sessionKey(), null, "fork").blockingGet());

    Session rewound = service.rewindSession(session.sessionKey(), 1).blockingGet();
    assertThat(texts(rewound)).containsExactly("e1");
    assertThat(rewound.state()).containsExactly("n", 1, "new1", true);
    List<StoredEvent> log =
        service.storedEvents(session.sessionKey(), 0, true).toList().blockingGet();
    assertThat(log).hasSize(5);
    assertThat(log.get(1).rewound()).isTrue();
    assertThat(log.get(1).rewindToSequence()).isEmpty();
    assertThat(log.get(4).sequence()).isEqualTo(5);
    assertThat(log.get(4).rewindToSequence()).hasValue(1);
    assertThat(log.get(0).commitTime()).isGreaterThan(Instant.now().minusSeconds(3600));
    assertThat(
            service
                .getSessionAsOf(new com.google.adk.sessions.SessionKey(APP, USER, "no"), 0)
                .blockingGet())
        .isNull();
  }

  @Test
  void sessionsExpire() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    Instant expiry = service.expireSession(session.sessionKey(), Duration.ofHours(1)).blockingGet();
    assertThat(expiry).isGreaterThan(Instant.now().plusSeconds(1800));
    service.expireSessionAt(session.sessionKey(), null).blockingAwait();
    service.expireSessionAt(session.sessionKey(), Instant.now().plusSeconds(7200)).blockingAwait();
    assertThrows(
        SessiondInvalidException.class,
        () -> service.expireSessionAt(session.sessionKey(), Instant.EPOCH).blockingAwait());
  }

  @Test
  void sharedTempIsSeenByOtherProcessesOfTheInvocation() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = closing(server.service().shareTemp(true).build());
    Session session = create(service, Map.of());
    Event event = event("hi", Map.of("temp:t", List.of(1)));
    service.appendEvent(session, event).blockingGet();
    // Repeated, it differs in what is not stored.
    service.appendEvent(session, event).blockingGet();
    Scope scope = Scope.session(session.sessionKey());
    assertThat(service.getState(scope, "i1").blockingGet()).containsEntry("temp:t", List.of(1));
    assertThat(service.getState(scope).blockingGet()).isEmpty();
    assertThat(session.events()).hasSize(1);
    service.endInvocation(session.sessionKey(), "i1").blockingAwait();
    assertThat(service.getState(scope, "i1").blockingGet()).isEmpty();
  }

  @Test
  void refreshOfADeletedSessionIsAnError() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    service.deleteSession(APP, USER, session.id()).blockingAwait();
    assertThrows(SessionNotFoundException.class, () -> service.refresh(session).blockingAwait());
  }
}
