package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The three answers to an append from an outdated session object. */
final class StaleTest extends ServerTest {

  private SessiondSessionService connect(TestServer server, Stale stale) {
    return closing(server.service().stale(stale).build());
  }

  private static void append(SessiondSessionService service, Session session, Object... delta) {
    service.appendEvent(session, changing(delta)).blockingGet();
  }

  private static Event changing(Object... delta) {
    Map<String, Object> changes = new ConcurrentHashMap<>();
    for (int i = 0; i < delta.length; i += 2) {
      changes.put((String) delta[i], delta[i + 1]);
    }
    return event("change", changes);
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void errorRefusesEveryOutdatedObject(String store) throws Exception {
    TestServer server = serve(store);
    SessiondSessionService service = connect(server, Stale.ERROR);
    Session first = create(service, Map.of());
    Session second = get(service, first.id());
    Event applied = changing("a", 1);
    service.appendEvent(first, applied).blockingGet();

    SessiondStaleException failure =
        assertThrows(SessiondStaleException.class, () -> append(service, second, "b", 2));

    assertThat(failure).hasMessageThat().contains("modified in storage");
    assertThat(failure.call().metadata()).containsAtLeast("expected", "0", "actual", "1");
    assertThat(second.events()).isEmpty();
    assertThat(get(service, first.id()).state()).containsExactly("a", 1);
    // Its own events keep an object current; a repeated event is no conflict.
    append(service, first, "c", 3);
    service.appendEvent(second, applied).blockingGet();
    assertThrows(SessiondStaleException.class, () -> append(service, second, "b", 2));
    service.refresh(second).blockingAwait();
    append(service, second, "b", 2);
    assertThat(get(service, first.id()).events()).hasSize(3);
  }

  @Test
  void errorKnowsObjectsOfOthersByTheirNewestEvent() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.ERROR);
    Session session = create(service, Map.of());
    Session foreign = Session.builder(session.id()).appName(APP).userId(USER).build();
    append(service, foreign, "a", 1);
    append(service, foreign, "b", 2);
    Session outdated = Session.builder(session.id()).appName(APP).userId(USER).build();
    assertThrows(SessiondStaleException.class, () -> append(service, outdated, "c", 3));
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void conflictRefusesOnlyKeysThatOthersHaveChanged(String store) throws Exception {
    TestServer server = serve(store);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session first =
        create(service, Map.of("a", 1, "b", 1, "c", 1, "app:x", 1, "user:y", 1, "gone", 1));
    Session second = get(service, first.id());
    append(service, first, "a", 2, "app:x", 2, "gone", State.REMOVED, "new", 1);

    SessiondStaleException failure =
        assertThrows(
            SessiondStaleException.class,
            () -> append(service, second, "a", 3, "b", 3, "app:x", 3));
    assertThat(failure.keys()).containsExactly("a", "app:x");
    assertThat(second.events()).isEmpty();
    assertThat(second.state()).containsEntry("a", 1);
    for (Object[] taken : new Object[][] {{"gone", 2}, {"new", 2}, {"a", State.REMOVED}}) {
      assertThrows(SessiondStaleException.class, () -> append(service, second, taken));
    }
    append(service, second, "b", 3, "user:y", 3, "fresh", 1);
    // The append has brought the object up to date.
    assertThat(second.state()).containsEntry("a", 2);
    assertThat(second.state()).doesNotContainKey("gone");
    append(service, second, "a", 3, "app:x", 3, "b", 4, "user:y", 4, "gone", 1);
    assertThrows(SessiondStaleException.class, () -> append(service, first, "user:y", 9));
  }

  @Test
  void conflictSeesAnEqualValueAsAChange() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session first = create(service, Map.of("a", 1));
    Session second = get(service, first.id());
    append(service, first, "a", 2);
    append(service, first, "a", 1);
    assertThrows(SessiondStaleException.class, () -> append(service, second, "a", 3));
  }

  @Test
  void conflictKeepsWhatAnUncommittedValueWasBasedOn() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session first = create(service, Map.of("a", 1, "b", 1));
    Session second = get(service, first.id());
    append(service, first, "a", 2);
    // A tool has written this, from a value that is not the newest.
    second.state().put("a", 10);
    append(service, second, "b", 2);
    assertThat(second.state()).containsEntry("a", 10);
    assertThrows(SessiondStaleException.class, () -> append(service, second, "a", 10));
  }

  @Test
  void conflictAcceptsARepeatedEvent() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session first = create(service, Map.of("a", 1));
    Event event = changing("a", 2);
    service.appendEvent(first, event).blockingGet();
    append(service, first, "a", 3);
    service.appendEvent(first, event).blockingGet();
    assertThat(get(service, first.id()).events()).hasSize(2);
    assertThat(first.events()).hasSize(2);
    assertThat(first.state()).containsEntry("a", 3);
  }

  @Test
  void conflictChecksTheWholeSequenceOfAnUnknownObject() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session session = create(service, Map.of("a", 1));
    append(service, session, "b", 1);
    Session unknown = Session.builder(session.id()).appName(APP).userId(USER).build();
    assertThrows(SessiondStaleException.class, () -> append(service, unknown, "c", 1));
  }

  @Test
  void anAddressChoosesTheAnswer() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service =
        closing(
            new SessiondSessionService(
                "sessiond://" + server.address() + "?stale=error&timeout=60"));
    Session first = create(service, Map.of());
    Session second = get(service, first.id());
    append(service, first, "a", 1);
    assertThrows(SessiondStaleException.class, () -> append(service, second, "b", 1));
  }
}
