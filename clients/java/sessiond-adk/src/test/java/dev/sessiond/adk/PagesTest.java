package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import com.google.adk.sessions.State;
import dev.sessiond.v1.KeyCheck;
import io.reactivex.rxjava3.subscribers.TestSubscriber;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** State that does not fit into one response, and damaged values. */
final class PagesTest extends ServerTest {

  private static final SessionKey KEY = new SessionKey(APP, USER, "s");
  private static final State STATE = new State(Map.of("app:a", 1, "user:b", 2, "c", 3));

  private PagedServer server;
  private SessiondSessionService service;

  @BeforeEach
  void open() throws Exception {
    server = closing(new PagedServer());
    service = closing(SessiondSessionService.builder(server.address()).build());
  }

  @Test
  void isPutTogetherWhereverASessionIsRead() {
    assertThat(service.createSession(APP, USER, Map.of(), "s").blockingGet().state())
        .isEqualTo(STATE);
    Session read = get(service, "s");
    assertThat(read.state()).isEqualTo(STATE);
    assertThat(service.uid(read)).isEqualTo("life-1");
    read.state().clear();
    service.refresh(read).blockingAwait();
    assertThat(read.state()).isEqualTo(STATE);
    List<Session> listed = service.listSessions(APP, USER).blockingGet().sessions();
    assertThat(listed).hasSize(1);
    assertThat(listed.get(0).state()).isEqualTo(STATE);
    assertThat(service.forkSession(KEY, null, "f").blockingGet().state()).isEqualTo(STATE);
    assertThat(service.getState(Scope.session(KEY)).blockingGet())
        .containsExactly("app:a", 1, "user:b", 2, "c", 3);
    assertThat(service.updateState(Scope.session(KEY), Delta.of(Map.of("c", 3))).blockingGet())
        .containsExactly("app:a", 1, "user:b", 2, "c", 3);
  }

  @ParameterizedTest
  @EnumSource(Stale.class)
  void versionsComeWithThePages(Stale stale) {
    service = closing(SessiondSessionService.builder(server.address()).stale(stale).build());
    Session read = get(service, "s");
    service.appendEvent(read, event("x", Map.of("app:a", 2, "c", 4))).blockingGet();
    List<KeyCheck> checks = server.appends.remove().getPrecondition().getKeysList();
    assertThat(checks.stream().map(KeyCheck::getVersion).toList())
        .containsExactlyElementsIn(stale == Stale.CONFLICT ? List.of(11L, 13L) : List.of());
    assertThat(read.state()).containsEntry("c", 4);
    assertThat(read.state()).containsEntry("user:b", 2);
  }

  @Test
  void ofASessionThatIsReplacedMeanwhileAreReadAnew() {
    server.livesOfPages.addAll(List.of("life-2", "life-1"));
    assertThat(get(service, "s").state()).isEqualTo(STATE);
    assertThat(server.reads.get()).isEqualTo(2);
    server.livesOfPages.addAll(List.of("x", "x", "x"));
    assertThrows(SessiondStaleException.class, () -> get(service, "s"));
    // A list goes on without it.
    server.livesOfPages.add("x");
    assertThat(service.listSessions(APP, USER).blockingGet().sessions()).isEmpty();
  }

  @Test
  void tellTheValueThatAnOperationHasFound() {
    Session read = get(service, "s");
    assertThat(service.setIfAbsent(read, "c", 9).blockingGet()).isEqualTo(3);
    assertThat(service.setIfAbsent(read, "none", null).blockingGet()).isNull();
  }

  @Test
  void ofThePastAreAnErrorAndNotAnEmptyState() {
    SessiondException failure =
        assertThrows(SessiondException.class, () -> service.getSessionAsOf(KEY, 1).blockingGet());
    assertThat(failure.call().reason()).isEqualTo("ANSWER_TOO_LARGE");
  }

  @ParameterizedTest
  @EnumSource(PagedServer.Demand.class)
  void completeTheSnapshotOfAWatch(PagedServer.Demand demand) throws Exception {
    TestSubscriber<WatchItem> watch = new TestSubscriber<>(demand.initial);
    service.watch(Scope.session(KEY)).subscribe(watch);
    for (int i = 1; i <= 3; i++) {
      watch.request(demand.more);
      assertThat(watch.awaitCount(i).values().size()).isAtLeast(i);
    }
    assertThat(watch.await(60, TimeUnit.SECONDS)).isTrue();
    watch.assertComplete();
    assertThat(((WatchItem.Snapshot) watch.values().get(0)).state())
        .containsExactly("app:a", 1, "user:b", 2, "c", 3);
    assertThat(watch.values().get(1)).isInstanceOf(WatchItem.CaughtUp.class);
    assertThat(watch.values().get(2)).isInstanceOf(WatchItem.Deleted.class);
    assertThat(watch.values()).hasSize(3);
  }

  @Test
  void damagedKeysAreNamedOnce() {
    try (Logged logged = new Logged(StateReader.class)) {
      server.damaged = List.of("app:x", "user:y");
      get(service, "s");
      get(service, "s");
      assertThat(logged.messages()).hasSize(1);
      assertThat(logged.messages().get(0)).contains("app:x, user:y");
      server.damaged = List.of("app:x", "app:z");
      Session read = get(service, "s");
      assertThat(logged.messages()).hasSize(2);
      assertThat(logged.messages().get(1)).endsWith("app:z");
      server.damaged = List.of("app:w");
      service.appendEvent(read, message("x")).blockingGet();
      assertThat(logged.messages()).hasSize(3);
      server.damaged = List.of("app:v");
      service.getState(Scope.app(APP)).blockingGet();
      assertThat(logged.messages()).hasSize(4);
    }
  }
}
