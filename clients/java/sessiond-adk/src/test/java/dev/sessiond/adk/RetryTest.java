package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.rpc.Code;
import io.grpc.CallCredentials;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.reactivex.rxjava3.core.Single;
import io.reactivex.rxjava3.disposables.Disposable;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Deadlines, retries, lost responses, and the options of the channel. */
final class RetryTest extends ServerTest {

  private static final RetryPolicy FAST =
      new RetryPolicy(5, Duration.ofMillis(1), Duration.ofMillis(2));

  /** Nothing listens there. A port that was free a moment ago can be another test's by now. */
  private static final String ABSENT = "127.0.0.1:1";

  private static final Scope SCOPE = Scope.app("a");
  private static final Delta DELTA = Delta.of(Map.of("app:k", 1));

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void aLostResponseDoublesNothing(String store) throws Exception {
    TestServer server = serve(store);
    Proxy proxy = closing(new Proxy(server.address()));
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(proxy.address())
                .timeout(Duration.ofSeconds(120))
                .build());
    proxy.loseResponses(1);
    Session session = service.createSession(APP, USER, Map.of("k", 1), "s1").blockingGet();
    assertThat(session.state()).containsExactly("k", 1);
    proxy.loseResponses(2);
    Event event = message("once");
    service.appendEvent(session, event).blockingGet();
    proxy.loseResponses(1);
    assertThat(service.increment(session, "user:n", 5).blockingGet()).isEqualTo(5);
    proxy.loseResponses(1);
    Session fork = service.forkSession(session.sessionKey(), 1L, "fork").blockingGet();
    proxy.loseResponses(1);
    assertThat(
            service.updateState(SCOPE, Delta.of(new Operation.Increment("app:n", 1))).blockingGet())
        .containsExactly("app:n", 1);
    assertThat(proxy.lost.get()).isEqualTo(6);
    Session read = get(service, "s1");
    assertThat(texts(read)).containsExactly("once", "").inOrder();
    assertThat(read.state()).containsExactly("k", 1, "user:n", 5);
    assertThat(session.events()).hasSize(2);
    assertThat(get(service, fork.id()).events()).hasSize(1);
  }

  @Test
  void aCreationOfSomebodyElseIsNotOurs() throws Exception {
    TestServer server = serve(MEMORY);
    create(connect(server), Map.of());
    connect(server).createSession(APP, USER, Map.of(), "s1").blockingGet();
    Proxy proxy = closing(new Proxy(server.address()));
    SessiondSessionService service =
        closing(SessiondSessionService.builder(proxy.address()).build());
    proxy.loseResponses(1);
    SessiondAlreadyExistsException failure =
        assertThrows(
            SessiondAlreadyExistsException.class,
            () -> service.createSession(APP, USER, Map.of(), "s1").blockingGet());
    assertThat(failure.call().attempts()).isEqualTo(2);
  }

  @Test
  void aCallLeavesADeadConnection() throws Exception {
    Proxy proxy = closing(new Proxy(serve(MEMORY).address()));
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(proxy.address())
                // Before the server's own keepalive ends the connection.
                .timeout(Duration.ofSeconds(50))
                // The interval is the default; gRPC allows none below 10 s.
                .configureChannel(channel -> channel.keepAliveTimeout(1, TimeUnit.SECONDS))
                .build());
    Session session = create(service, Map.of("k", 1));
    proxy.loseEverything();
    long start = System.nanoTime();
    assertThat(get(service, session.id()).state()).containsExactly("k", 1);
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isGreaterThan(Duration.ofSeconds(15));
    assertThat(proxy.connections.get()).isEqualTo(2);
  }

  @Test
  void aServerThatIsAwayIsUnavailable() {
    SessiondSessionService service =
        closing(SessiondSessionService.builder(ABSENT).retry(FAST).build());
    SessiondUnavailableException failure =
        assertThrows(
            SessiondUnavailableException.class, () -> service.getState(SCOPE).blockingGet());
    assertThat(failure.call().attempts()).isEqualTo(5);
    assertThat(failure.call().reason()).isEmpty();
  }

  @Test
  void aLocalServerThatWasNeverThereIsGivenUpSoon() {
    SessiondSessionService service = closing(new SessiondSessionService(ABSENT));
    long start = System.nanoTime();
    assertThrows(SessiondUnavailableException.class, () -> service.getState(SCOPE).blockingGet());
    // The time that other servers get is 15 s.
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(12));
  }

  @Test
  void aLocalServerThatHasAnsweredIsWaitedFor() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    Duration delay = Duration.ofMillis(900);
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(server.address())
                .retry(new RetryPolicy(Integer.MAX_VALUE, delay, delay))
                .build());
    service.updateState(SCOPE, DELTA).blockingGet();
    // At least 450 ms each: longer than for a server that was never there.
    for (int i = 0; i < 8; i++) {
      server.fail(Code.UNAVAILABLE, "", "");
    }
    service.updateState(SCOPE, DELTA).blockingGet();
    assertThat(server.requestIds).hasSize(10);
  }

  @Test
  void aSilentServerMeetsTheDeadline() throws Exception {
    try (ServerSocket silent = new ServerSocket(0)) {
      SessiondSessionService service =
          closing(
              SessiondSessionService.builder("127.0.0.1:" + silent.getLocalPort())
                  .timeout(Duration.ofMillis(200))
                  .closeGrace(Duration.ZERO)
                  .build());
      assertThrows(SessiondDeadlineException.class, () -> service.getState(SCOPE).blockingGet());
    }
  }

  // What the server says.

  @Test
  void theServerDecidesAboutRetries() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    SessiondSessionService service =
        closing(SessiondSessionService.builder(server.address()).retry(FAST).build());
    server.fail(Code.RESOURCE_EXHAUSTED, "OVERLOADED", "yes");
    server.fail(Code.UNKNOWN, "OUTCOME_UNKNOWN", "same_id");
    server.fail(Code.UNAVAILABLE, "", "");
    service.updateState(SCOPE, DELTA).blockingGet();
    assertThat(server.requestIds).hasSize(4);
    assertThat(Set.copyOf(server.requestIds)).hasSize(1);

    for (String[] last :
        new String[][] {
          {"ABORTED", "KEY_CONFLICT", "no"},
          {"INTERNAL", "INTERNAL", "no"},
          {"UNAVAILABLE", "FUTURE", "perhaps"},
          {"INTERNAL", "", ""}
        }) {
      server.requestIds.clear();
      server.fail(Code.valueOf(last[0]), last[1], last[2]);
      RuntimeException failure =
          assertThrows(
              RuntimeException.class, () -> service.updateState(SCOPE, DELTA).blockingGet());
      assertThat(SessiondFailure.find(failure).orElseThrow().reason()).isEqualTo(last[1]);
      assertThat(server.requestIds).hasSize(1);
    }
  }

  @Test
  void aCallGoesOnUntilTheServerIsBack() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    Duration delay = Duration.ofMillis(1);
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(server.address())
                .timeout(Duration.ofMinutes(5))
                .retry(new RetryPolicy(Integer.MAX_VALUE, delay, delay))
                .build());
    int attempts = 30;
    for (int i = 0; i < attempts; i++) {
      server.fail(Code.UNAVAILABLE, "STARTING", "yes");
    }
    service.updateState(SCOPE, DELTA).blockingGet();
    assertThat(server.requestIds).hasSize(attempts + 1);
    assertThat(Set.copyOf(server.requestIds)).hasSize(1);
  }

  @Test
  void aRequestedDelayThatDoesNotFitEndsTheCall() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    SessiondSessionService service =
        closing(SessiondSessionService.builder(server.address()).retry(FAST).build());
    server.fail(Code.RESOURCE_EXHAUSTED, "OVERLOADED", "yes", 3600);
    SessiondException failure =
        assertThrows(
            SessiondException.class, () -> service.updateState(SCOPE, DELTA).blockingGet());
    assertThat(failure.call().retryAfter()).isEqualTo(Duration.ofHours(1));
    assertThat(server.requestIds).hasSize(1);
  }

  @Test
  void disposingCancelsTheCallAndReleasesTheSession() throws Exception {
    TestServer real = serve(MEMORY);
    Session session = create(connect(real), Map.of());
    try (ServerSocket silent = new ServerSocket(0)) {
      SessiondSessionService service =
          closing(
              SessiondSessionService.builder("127.0.0.1:" + silent.getLocalPort())
                  .timeout(Duration.ofSeconds(1))
                  .closeGrace(Duration.ZERO)
                  .build());
      Disposable first = service.appendEvent(session, message("never")).subscribe();
      var second = service.appendEvent(session, message("second")).test();
      first.dispose();
      // Without the lock it would wait for ever; now it meets its own deadline.
      assertThat(second.await(60, TimeUnit.SECONDS)).isTrue();
      second.assertError(SessiondDeadlineException.class);
    }
  }

  @Test
  void closingCutsOffCallsAndRefusesLaterOnes() throws Exception {
    try (ServerSocket silent = new ServerSocket(0)) {
      SessiondSessionService service =
          SessiondSessionService.builder("127.0.0.1:" + silent.getLocalPort())
              .timeout(Duration.ofSeconds(600))
              .closeGrace(Duration.ofMillis(50))
              .build();
      var pending = service.getState(SCOPE).test();
      try (Socket connected = silent.accept()) {
        service.close();
        assertThat(pending.await(60, TimeUnit.SECONDS)).isTrue();
        pending.assertError(SessiondClosedException.class);
        service.close();
        assertThrows(SessiondClosedException.class, () -> service.getState(SCOPE).blockingGet());
        assertThat(connected.isBound()).isTrue();
      }
    }
  }

  @Test
  void resultsAreEmittedOnTheScheduler() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    String thread =
        service
            .createSession(APP, USER)
            .map(created -> Thread.currentThread().getName())
            .blockingGet();
    assertThat(thread).startsWith("RxCachedThreadScheduler");
  }

  @Test
  void aSurroundingCallDoesNotEndOurs() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Context.CancellableContext surrounding = Context.current().withCancellation();
    surrounding.cancel(null);
    surrounding.run(() -> assertThat(service.getState(SCOPE).blockingGet()).isEmpty());
  }

  @Test
  void anAppendInsideTheResultOfAnotherDoesNotWaitForIt() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    Session session = create(service, Map.of());
    service
        .appendEvent(session, message("outer"))
        .map(event -> service.appendEvent(session, message("inner")).blockingGet())
        .blockingGet();
    assertThat(texts(session)).containsExactly("outer", "inner").inOrder();
  }

  @Test
  void appendsOfOneObjectKeepTheOrderOfSubscription() throws Exception {
    SessiondSessionService service = connect(SQLITE);
    Session session = create(service, Map.of());
    List<String> sent = new ArrayList<>();
    List<Single<Event>> appends = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      sent.add("e" + i);
      appends.add(service.appendEvent(session, message("e" + i)));
    }
    Single.concatEager(appends).blockingSubscribe();
    assertThat(texts(session)).isEqualTo(sent);
    assertThat(texts(get(service, session.id()))).isEqualTo(sent);
  }

  // Options of the channel.

  @Test
  void tokensAndInterceptorsReachTheServer() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    Metadata.Key<String> name = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    CallCredentials token =
        new CallCredentials() {
          @Override
          public void applyRequestMetadata(
              RequestInfo info, Executor executor, MetadataApplier to) {
            Metadata headers = new Metadata();
            headers.put(name, "Bearer secret");
            to.apply(headers);
          }
        };
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(server.address())
                .callCredentials(token)
                .configureChannel(channel -> channel.userAgent("my-agent"))
                .build());
    service.updateState(SCOPE, DELTA).blockingGet();
    assertThat(server.headers.peek().get(name)).isEqualTo("Bearer secret");
    assertThat(
            server
                .headers
                .peek()
                .get(Metadata.Key.of("user-agent", Metadata.ASCII_STRING_MARSHALLER)))
        .startsWith("my-agent");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void tlsIsAttempted(boolean byAddress) throws Exception {
    try (ServerSocket socket = new ServerSocket(0)) {
      String host = "127.0.0.1:" + socket.getLocalPort();
      ServiceBuilder builder =
          SessiondSessionService.builder((byAddress ? "https://" : "http://") + host)
              .timeout(Duration.ofSeconds(60))
              .closeGrace(Duration.ZERO);
      if (!byAddress) {
        builder.channelCredentials(TlsChannelCredentials.create());
      }
      SessiondSessionService service = closing(builder.build());
      Disposable call = service.getState(SCOPE).subscribe(state -> {}, failure -> {});
      try (Socket connected = socket.accept()) {
        // A TLS record of the kind handshake, instead of HTTP/2's preface.
        assertThat(connected.getInputStream().read()).isEqualTo(22);
      }
      call.dispose();
    }
  }

  @Test
  void unixSocketsWork() throws Exception {
    TestServer server =
        closing(TestServer.start(directory, MEMORY, "unix:" + directory.resolve("s.sock")));
    for (String address : List.of(server.address(), "sessiond://" + directory.resolve("s.sock"))) {
      SessiondSessionService service =
          closing(SessiondSessionService.builder(address).timeout(Duration.ofSeconds(60)).build());
      assertThat(create(service, Map.of("k", 1)).state()).containsEntry("k", 1);
    }
  }

  @Test
  void damagedDetailsDoNotHideTheStatus() {
    Metadata trailers = new Metadata();
    trailers.put(
        Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER),
        new byte[] {(byte) 0xff, 1});
    FailedCall call =
        FailedCall.of(Status.NOT_FOUND.withDescription("why").asRuntimeException(trailers), 1);
    assertThat(call.code()).isEqualTo(Status.Code.NOT_FOUND);
    assertThat(call.message()).startsWith("why");
  }
}
