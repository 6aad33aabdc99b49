package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import io.reactivex.rxjava3.observers.TestObserver;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What a session object shows of appends that have no response yet. */
final class OverlayTest extends ServerTest {

  private HeldServer server;
  private SessiondSessionService service;
  private Session session;

  @BeforeEach
  void open() throws Exception {
    server = closing(new HeldServer());
    service = closing(SessiondSessionService.builder(server.address()).build());
    session =
        Session.builder("s1")
            .appName(APP)
            .userId(USER)
            .state(new HashMap<>(Map.of("kept", 1, "gone", 1)))
            .build();
  }

  private TestObserver<Event> append(String text, Map<String, Object> delta) {
    return service.appendEvent(session, event(text, new HashMap<>(delta))).test();
  }

  private static void awaitEnd(TestObserver<Event> append) throws InterruptedException {
    assertThat(append.await(60, TimeUnit.SECONDS)).isTrue();
  }

  private void assertShown(Map<String, Object> state, String... texts) {
    assertThat(session.state()).isEqualTo(new State(state));
    assertThat(texts(session)).containsExactlyElementsIn(List.of(texts)).inOrder();
  }

  @Test
  void anAppendIsShownFromTheSubscriptionOn() throws Exception {
    var append =
        service.appendEvent(
            session, event("a", Map.of("k", 2, "gone", State.REMOVED, "temp:t", 3)));
    assertShown(Map.of("kept", 1, "gone", 1));
    TestObserver<Event> result = append.test();
    assertShown(Map.of("kept", 1, "k", 2, "temp:t", 3), "a");
    server.next().store(1, "{\"kept\":1,\"k\":2,\"others\":9}");
    awaitEnd(result);
    result.assertNoErrors();
    assertShown(Map.of("kept", 1, "k", 2, "temp:t", 3, "others", 9), "a");
  }

  @Test
  void aFailedAppendIsTakenBack() throws Exception {
    Event event =
        event("a", new HashMap<>(Map.of("kept", 2, "k", 2, "gone", State.REMOVED, "temp:t", 3)));
    TestObserver<Event> result = service.appendEvent(session, event).test();
    server.next().refuse();
    awaitEnd(result);
    result.assertError(SessiondException.class);
    assertShown(Map.of("kept", 1, "gone", 1));
    assertThat(event.actions().stateDelta()).containsKey("temp:t");
  }

  @Test
  void whatTheAgentSetsMeanwhileStays() throws Exception {
    TestObserver<Event> result = append("a", Map.of("kept", 2, "k", 2));
    session.state().put("k", "agent");
    session.state().put("other", "agent");
    server.next().refuse();
    awaitEnd(result);
    assertShown(Map.of("kept", 1, "gone", 1, "k", "agent", "other", "agent"));
    // Also if the append succeeds, as the next one carries it.
    result = append("b", Map.of("k", 3));
    session.state().put("k", "later");
    session.state().remove("other");
    server.next().store(1, "{\"kept\":1,\"gone\":1,\"k\":3}");
    awaitEnd(result);
    result = append("c", Map.of("k", "later", "kept", 4));
    session.state().remove("kept");
    server.next().store(2, "{\"kept\":4,\"gone\":1,\"k\":\"later\"}");
    awaitEnd(result);
    assertShown(Map.of("gone", 1, "k", "later"), "b", "c");
  }

  @Test
  void aFailureTakesNothingFromALaterAppend() throws Exception {
    TestObserver<Event> first = append("a", Map.of("k", "a", "kept", "a", "gone", "a"));
    TestObserver<Event> second = append("b", Map.of("k", "b", "gone", State.REMOVED));
    assertShown(Map.of("k", "b", "kept", "a"), "a", "b");
    server.next().refuse();
    awaitEnd(first);
    assertShown(Map.of("k", "b", "kept", 1), "b");
    server.next().refuse();
    awaitEnd(second);
    assertShown(Map.of("kept", 1, "gone", 1));
  }

  @Test
  void aResponseTakesNothingFromALaterAppend() throws Exception {
    TestObserver<Event> first = append("a", Map.of("k", "a"));
    TestObserver<Event> second = append("b", Map.of("k", "b", "n", "b", "gone", State.REMOVED));
    HeldServer.Held held = server.next();
    assertThat(held.request().getEvent().getBodyJson()).contains("\"a\"");
    held.store(1, "{\"kept\":1,\"gone\":1,\"k\":\"a\",\"n\":\"others\"}");
    awaitEnd(first);
    assertShown(Map.of("k", "b", "n", "b", "kept", 1), "a", "b");
    server.next().refuse();
    awaitEnd(second);
    assertShown(Map.of("k", "a", "n", "others", "kept", 1, "gone", 1), "a");
  }

  @Test
  void aCancelledAppendIsTakenBackBeforeAndAfterItIsSent() throws Exception {
    TestObserver<Event> first = append("a", Map.of("k", "a"));
    TestObserver<Event> second = append("b", Map.of("k", "b"));
    TestObserver<Event> third = append("c", Map.of("k", "c", "c", 1));
    server.next();
    second.dispose();
    assertShown(Map.of("k", "c", "c", 1, "kept", 1, "gone", 1), "a", "c");
    first.dispose();
    assertShown(Map.of("k", "c", "c", 1, "kept", 1, "gone", 1), "c");
    server.next().refuse();
    awaitEnd(third);
    assertShown(Map.of("kept", 1, "gone", 1));
  }

  @Test
  void aRetryShowsTheEventOnce() throws Exception {
    Event event = event("a", new HashMap<>(Map.of("k", 2, "temp:t", 3)));
    TestObserver<Event> result = service.appendEvent(session, event).retry(1).test();
    server.next().refuse();
    HeldServer.Held again = server.next();
    assertShown(Map.of("kept", 1, "gone", 1, "k", 2, "temp:t", 3), "a");
    again.store(1, "{\"kept\":1,\"gone\":1,\"k\":2}");
    awaitEnd(result);
    assertShown(Map.of("kept", 1, "gone", 1, "k", 2, "temp:t", 3), "a");
    assertThat(event.actions().stateDelta()).containsExactly("k", 2);
  }

  @Test
  void oneEventThatIsAppendedTwiceAtATimeIsThereOnce() throws Exception {
    Event event = event("a", Map.of("k", 2));
    TestObserver<Event> first = service.appendEvent(session, event).test();
    TestObserver<Event> second = service.appendEvent(session, event).test();
    assertShown(Map.of("kept", 1, "gone", 1, "k", 2), "a");
    server.next().refuse();
    awaitEnd(first);
    server.next().store(1, "{\"kept\":1,\"gone\":1,\"k\":2}");
    awaitEnd(second);
    assertShown(Map.of("kept", 1, "gone", 1, "k", 2), "a");
  }

  @Test
  void aReplayOfAnEventThatTheSessionHasChangesNothing() throws Exception {
    Event event = event("a", Map.of("k", 2));
    TestObserver<Event> first = service.appendEvent(session, event).test();
    server.next().store(1, "{\"kept\":1,\"k\":2}");
    awaitEnd(first);
    session.state().put("k", "agent");
    TestObserver<Event> again = service.appendEvent(session, event).test();
    assertThat(session.state()).containsEntry("k", "agent");
    server.next().refuse();
    awaitEnd(again);
    assertThat(session.state()).containsEntry("k", "agent");
    assertThat(session.events()).containsExactly(event);
  }

  @Test
  void aValueWithoutJsonChangesNothing() {
    append("a", Map.of("k", 2, "bad", Double.NaN)).assertError(StateValueException.class);
    assertShown(Map.of("kept", 1, "gone", 1));
  }

  @Test
  void refreshKeepsAppendsInFlight() throws Exception {
    Overlay overlay = new Overlay();
    Event pending = event("pending", Map.of("k", 2, "temp:t", 1));
    Overlay.Change change = new Overlay.Change(pending, pending.actions().stateDelta());
    overlay.show(session, change);
    assertThat(overlay.newestEventId(session)).isEmpty();
    Event stored = message("stored");
    overlay.replace(session, Map.of("k", 9, "kept", 5), List.of(stored));
    assertShown(Map.of("k", 2, "kept", 5, "temp:t", 1), "stored", "pending");
    assertThat(overlay.newestEventId(session)).isEqualTo(stored.id());
    overlay.takeBack(session, change);
    assertShown(Map.of("k", 9, "kept", 5), "stored");
    overlay.takeBack(session, change);
    assertThat(overlay.settle(change)).isFalse();
  }
}
