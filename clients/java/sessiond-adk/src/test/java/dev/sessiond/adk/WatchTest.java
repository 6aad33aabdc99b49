package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import com.google.adk.sessions.SessionNotFoundException;
import com.google.adk.sessions.State;
import com.google.rpc.Code;
import dev.sessiond.v1.CaughtUp;
import dev.sessiond.v1.Heartbeat;
import dev.sessiond.v1.WatchResponse;
import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.reactivex.rxjava3.subscribers.TestSubscriber;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class WatchTest extends ServerTest {

  private static List<WatchItem> await(TestSubscriber<WatchItem> subscriber, int count)
      throws InterruptedException {
    long began = System.nanoTime();
    // Each gives up after five seconds, which a busy machine may need.
    while (subscriber.values().size() < count
        && !subscriber.await(0, TimeUnit.SECONDS)
        && System.nanoTime() - began < TimeUnit.MINUTES.toNanos(2)) {
      subscriber.awaitCount(count);
    }
    subscriber.assertNoErrors();
    return subscriber.values();
  }

  private static List<String> appended(List<WatchItem> items) {
    List<String> texts = new ArrayList<>();
    for (WatchItem item : items) {
      if (item instanceof WatchItem.Appended appended) {
        texts.add(appended.event().stringifyContent());
      }
    }
    return texts;
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void aWatchDeliversEverythingOnceUntilTheSessionIsDeleted(String store) throws Exception {
    SessiondSessionService service = connect(store);
    Session session = create(service, Map.of("k", 1));
    service.appendEvent(session, message("before")).blockingGet();
    TestSubscriber<WatchItem> subscriber =
        service.watch(Scope.session(session.sessionKey())).test();
    List<WatchItem> first = await(subscriber, 2);
    assertThat(((WatchItem.Snapshot) first.get(0)).state()).containsExactly("k", 1);
    assertThat(((WatchItem.Snapshot) first.get(0)).lastSequence()).isEqualTo(1);
    assertThat(first.get(1)).isInstanceOf(WatchItem.CaughtUp.class);
    service.appendEvent(session, event("live", Map.of("k", State.REMOVED))).blockingGet();
    assertThat(appended(await(subscriber, 3))).containsExactly("live");
    service
        .updateState(Scope.user(APP, USER), Delta.of(Map.of("user:x", 1, "user:y", State.REMOVED)))
        .blockingGet();
    WatchItem.Changed changed = (WatchItem.Changed) await(subscriber, 4).get(3);
    assertThat(changed.values()).containsExactly("user:x", 1);
    service.deleteSession(APP, USER, session.id()).blockingAwait();
    assertThat(subscriber.await(60, TimeUnit.SECONDS)).isTrue();
    subscriber.assertComplete();
    assertThat(subscriber.values().get(4)).isInstanceOf(WatchItem.Deleted.class);
  }

  private static boolean hasCaughtUp(TestSubscriber<WatchItem> watch) throws InterruptedException {
    return await(watch, 1).get(0) instanceof WatchItem.CaughtUp;
  }

  /**
   * Neither a watch nor a call waits for a stream, of which a server allows 256 on a connection.
   */
  @Test
  void aThousandWatchesHaveFiveConnections() throws Exception {
    Proxy proxy = closing(new Proxy(serve(MEMORY).address()));
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(proxy.address())
                .timeout(java.time.Duration.ofSeconds(120))
                .build());
    List<Session> sessions = new ArrayList<>();
    for (int n = 0; n < 10; n++) {
      sessions.add(create(service, Map.of()));
    }
    List<TestSubscriber<WatchItem>> ofSessions = new ArrayList<>();
    List<TestSubscriber<WatchItem>> watches = new ArrayList<>();
    for (int n = 0; n < 500; n++) {
      Scope session = Scope.session(sessions.get(n % 10).sessionKey());
      ofSessions.add(service.watch(session, Watch.fromNow()).test());
      watches.add(service.watch(Scope.app(APP), Watch.fromNow()).test());
    }
    watches.addAll(ofSessions);
    for (TestSubscriber<WatchItem> watch : watches) {
      assertThat(hasCaughtUp(watch)).isTrue();
    }
    assertThat(proxy.connections.get()).isEqualTo(5);

    for (Session session : sessions) {
      service.appendEvent(session, message("told")).blockingGet();
    }
    for (TestSubscriber<WatchItem> watch : ofSessions) {
      assertThat(appended(await(watch, 2))).containsExactly("told");
    }
    service.updateState(Scope.app(APP), Delta.of(Map.of("app:a", 1))).blockingGet();
    for (TestSubscriber<WatchItem> watch : watches) {
      int before = ofSessions.contains(watch) ? 2 : 1;
      WatchItem.Changed changed = (WatchItem.Changed) await(watch, before + 1).get(before);
      assertThat(changed.values()).containsExactly("app:a", 1);
    }

    watches.forEach(TestSubscriber::cancel);
    assertThat(proxy.closed.tryAcquire(4, 60, TimeUnit.SECONDS)).isTrue();
    assertThat(texts(get(service, sessions.get(0).id()))).containsExactly("told");
    assertThat(hasCaughtUp(service.watch(Scope.app(APP), Watch.fromNow()).test())).isTrue();
    assertThat(proxy.connections.get()).isEqualTo(5);
  }

  @Test
  void closingEndsAllConnections() throws Exception {
    Proxy proxy = closing(new Proxy(serve(MEMORY).address()));
    SessiondSessionService service = SessiondSessionService.builder(proxy.address()).build();
    for (int n = 0; n < 401; n++) {
      assertThat(hasCaughtUp(service.watch(Scope.app(APP), Watch.fromNow()).test())).isTrue();
    }
    service.close();
    assertThat(proxy.closed.tryAcquire(3, 60, TimeUnit.SECONDS)).isTrue();
    assertThat(proxy.connections.get()).isEqualTo(3);
  }

  @Test
  void aSubscriberGetsNoMoreThanItAskedFor() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    for (int i = 0; i < 50; i++) {
      service.appendEvent(session, message("e" + i)).blockingGet();
    }
    TestSubscriber<WatchItem> subscriber = new TestSubscriber<>(0);
    service.watch(Scope.session(session.sessionKey()), Watch.fromBeginning()).subscribe(subscriber);
    subscriber.request(3);
    assertThat(appended(await(subscriber, 3))).containsExactly("e0", "e1", "e2").inOrder();
    service.appendEvent(session, message("e50")).blockingGet();
    subscriber.assertValueCount(3);
    // The other events, and the end of what was stored before the watch.
    subscriber.request(49);
    assertThat(appended(await(subscriber, 52))).hasSize(51);
    subscriber.cancel();
    // Another watch resumes after any item.
    SessionKey key = session.sessionKey();
    String cursor = subscriber.values().get(48).cursor();
    assertThat(
            appended(
                service
                    .watch(Scope.session(key), Watch.after(cursor))
                    .take(2)
                    .toList()
                    .blockingGet()))
        .containsExactly("e49", "e50")
        .inOrder();
  }

  @Test
  void aWatchOutlivesCutsAndACrashOfTheServer() throws Exception {
    TestServer server = serve(SQLITE);
    Proxy proxy = closing(new Proxy(server.address()));
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(proxy.address())
                .timeout(java.time.Duration.ofSeconds(120))
                .retry(
                    new RetryPolicy(
                        1000, java.time.Duration.ofMillis(20), java.time.Duration.ofMillis(200)))
                .build());
    Session session = create(service, Map.of());
    TestSubscriber<WatchItem> subscriber =
        service.watch(Scope.session(session.sessionKey()), Watch.fromBeginning()).test();
    await(subscriber, 1);
    List<String> sent = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      String text = "e" + i;
      sent.add(text);
      service.appendEvent(session, message(text)).blockingGet();
      if (i % 5 == 1) {
        proxy.cut();
      }
      if (i == 10) {
        server.kill();
        server.startAgain();
      }
    }
    assertThat(appended(await(subscriber, 21))).isEqualTo(sent);
    assertThat(proxy.connections.get()).isGreaterThan(3);
    subscriber.cancel();
  }

  @Test
  void errorsAndClosingEndAWatch() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = server.service().build();
    Scope missing = Scope.session(new SessionKey(APP, USER, "missing"));
    TestSubscriber<WatchItem> failed = service.watch(missing).test();
    assertThat(failed.await(60, TimeUnit.SECONDS)).isTrue();
    failed.assertError(SessionNotFoundException.class);
    TestSubscriber<WatchItem> invalid =
        service.watch(Scope.app(APP), Watch.after("no cursor")).test();
    assertThat(invalid.await(60, TimeUnit.SECONDS)).isTrue();
    invalid.assertError(SessiondInvalidException.class);
    TestSubscriber<WatchItem> open = service.watch(Scope.app(APP)).test();
    await(open, 2);
    service.close();
    assertThat(open.await(60, TimeUnit.SECONDS)).isTrue();
    open.assertComplete();
  }

  @Test
  void aWatchGoesOnAtTheCursorOfAServerThatStops() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    // It may not have sent anything yet.
    server.fail(Code.UNAVAILABLE, "DRAINING", Map.of("retryable", "yes", "cursor", "3"), 0);
    SessiondSessionService service =
        closing(SessiondSessionService.builder(server.address()).build());
    TestSubscriber<WatchItem> subscriber = service.watch(Scope.app(APP), Watch.fromNow()).test();
    assertThat(subscriber.await(60, TimeUnit.SECONDS)).isTrue();
    subscriber.assertComplete();
    assertThat(server.cursors).containsExactly("", "3").inOrder();
  }

  /** A watch that sends another token with every stream. */
  private TestSubscriber<WatchItem> watchWithNewTokens(ScriptedServer server) throws Exception {
    AtomicInteger sent = new AtomicInteger();
    CallCredentials tokens =
        new CallCredentials() {
          @Override
          public void applyRequestMetadata(
              RequestInfo info, Executor executor, MetadataApplier applier) {
            Metadata headers = new Metadata();
            headers.put(
                Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER),
                "Bearer " + sent.incrementAndGet());
            applier.apply(headers);
          }
        };
    SessiondSessionService service =
        closing(SessiondSessionService.builder(server.address()).callCredentials(tokens).build());
    TestSubscriber<WatchItem> subscriber = service.watch(Scope.app(APP)).test();
    assertThat(subscriber.await(60, TimeUnit.SECONDS)).isTrue();
    return subscriber;
  }

  private static WatchResponse caughtUpAt(String cursor) {
    return WatchResponse.newBuilder()
        .setCursor(cursor)
        .setCaughtUp(CaughtUp.getDefaultInstance())
        .build();
  }

  @Test
  void aWatchOutlivesItsToken() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    server.beforeFailures.add(caughtUpAt("1"));
    server.fail(Code.UNAUTHENTICATED, "CREDENTIAL_EXPIRED", "no");
    server.beforeFailures.add(
        WatchResponse.newBuilder()
            .setCursor("2")
            .setHeartbeat(Heartbeat.getDefaultInstance())
            .build());
    server.fail(Code.UNAUTHENTICATED, "CREDENTIAL_INVALID", "no");
    TestSubscriber<WatchItem> subscriber = watchWithNewTokens(server);
    subscriber.assertComplete();
    assertThat(subscriber.values()).hasSize(2);
    assertThat(subscriber.values().get(1)).isInstanceOf(WatchItem.Deleted.class);
    assertThat(server.cursors).containsExactly("", "1", "2").inOrder();
    assertThat(server.sent("authorization"))
        .containsExactly("Bearer 1", "Bearer 2", "Bearer 3")
        .inOrder();
  }

  @ParameterizedTest
  @ValueSource(strings = {"CREDENTIAL_EXPIRED", "CREDENTIAL_INVALID"})
  void aRefusedTokenEndsAWatch(String reason) throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    server.fail(Code.UNAUTHENTICATED, reason, "no");
    watchWithNewTokens(server).assertFailure(SessiondUnauthenticatedException.class);
    assertThat(server.cursors).containsExactly("");

    // Also when it comes after one that was accepted.
    server.cursors.clear();
    server.beforeFailures.add(caughtUpAt("1"));
    server.fail(Code.UNAUTHENTICATED, reason, "no");
    server.fail(Code.UNAUTHENTICATED, reason, "no");
    TestSubscriber<WatchItem> subscriber = watchWithNewTokens(server);
    subscriber.assertError(SessiondUnauthenticatedException.class).assertValueCount(1);
    assertThat(server.cursors).containsExactly("", "1").inOrder();
  }

  @Test
  void aRightThatIsTakenEndsAWatch() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    server.beforeFailures.add(caughtUpAt("1"));
    server.fail(Code.PERMISSION_DENIED, "PERMISSION_DENIED", "no");
    watchWithNewTokens(server).assertError(SessiondPermissionDeniedException.class);
    assertThat(server.cursors).containsExactly("");
  }

  @Test
  void anOutageLongerThanTheLimitIsAnError() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server);
    TestSubscriber<WatchItem> subscriber =
        service
            .watch(Scope.app(APP), Watch.fromSnapshot().reconnect(java.time.Duration.ofMillis(300)))
            .test();
    await(subscriber, 2);
    server.kill();
    assertThat(subscriber.await(60, TimeUnit.SECONDS)).isTrue();
    subscriber.assertError(SessiondUnavailableException.class);
  }
}
