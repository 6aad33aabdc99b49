package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.sessions.GetSessionConfig;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.AppendEventResponse;
import dev.sessiond.v1.Event;
import dev.sessiond.v1.EventServiceGrpc;
import dev.sessiond.v1.GetSessionRequest;
import dev.sessiond.v1.GetSessionResponse;
import dev.sessiond.v1.GetStateRequest;
import dev.sessiond.v1.GetStateResponse;
import dev.sessiond.v1.ListEventsRequest;
import dev.sessiond.v1.ListEventsResponse;
import dev.sessiond.v1.ListSessionsRequest;
import dev.sessiond.v1.ListSessionsResponse;
import dev.sessiond.v1.SessionServiceGrpc;
import dev.sessiond.v1.StateServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.stub.StreamObserver;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A server that reads many rows before it finds what is asked for: each page comes behind an empty
 * one with a token.
 */
final class EmptyPagesTest extends ServerTest {

  private static final SessionKey KEY = new SessionKey(APP, USER, "s");

  private final Queue<AppendEventRequest> appends = new ConcurrentLinkedQueue<>();
  private String address;
  private SessiondSessionService service;

  @BeforeEach
  void open() throws Exception {
    Server server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(new Sessions())
            .addService(new Events())
            .addService(new States())
            .build()
            .start();
    closing(server::shutdownNow);
    address = "127.0.0.1:" + server.getPort();
    service = closing(SessiondSessionService.builder(address).build());
  }

  @Test
  void areNotTheEndOfAList() {
    List<Session> listed = service.listSessions(APP, USER).blockingGet().sessions();
    assertThat(listed.stream().map(Session::id).toList()).containsExactly("s");
    assertThat(service.listEvents(APP, USER, "s").blockingGet().events()).hasSize(1);
    assertThat(service.storedEvents(KEY, 0, true).toList().blockingGet()).hasSize(1);
    assertThat(service.getState(Scope.session(KEY)).blockingGet()).containsExactly("a", 1);
  }

  @Test
  void areNotTheEndOfTheEventsOfASession() {
    GetSessionConfig recent = GetSessionConfig.builder().numRecentEvents(1).build();
    GetSessionConfig after =
        GetSessionConfig.builder().afterTimestamp(Instant.ofEpochSecond(1)).build();
    for (Optional<GetSessionConfig> config :
        List.of(Optional.<GetSessionConfig>empty(), Optional.of(recent), Optional.of(after))) {
      Session read = service.getSession(APP, USER, "s", config).blockingGet();
      assertThat(read.events()).hasSize(1);
    }
    assertThat(service.getSessionAsOf(KEY, 1).blockingGet().events()).hasSize(1);
    Session read = get(service, "s");
    read.events().clear();
    service.refresh(read).blockingAwait();
    assertThat(read.events()).hasSize(1);
  }

  /** The newest events tell whether a session object that another service has read is stale. */
  @Test
  void areNotTheEndOfTheNewestEvents() {
    SessiondSessionService strict =
        closing(SessiondSessionService.builder(address).stale(Stale.ERROR).build());
    strict.appendEvent(get(service, "s"), message("x")).blockingGet();
    assertThat(appends.remove().getPrecondition().getExpectedSequence()).isEqualTo(1);
  }

  private static <R> void answer(StreamObserver<R> responses, R response) {
    responses.onNext(response);
    responses.onCompleted();
  }

  private static dev.sessiond.v1.Session.Builder session() {
    dev.sessiond.v1.Session.Builder session = dev.sessiond.v1.Session.newBuilder();
    session.getKeyBuilder().setAppName(APP).setUserId(USER).setSessionId("s");
    return session.setUid("life").setLastSequence(1).setStateJson("{}");
  }

  private static final class Sessions extends SessionServiceGrpc.SessionServiceImplBase {
    @Override
    public void getSession(
        GetSessionRequest request, StreamObserver<GetSessionResponse> responses) {
      // The events begin behind an empty page of ListEvents.
      answer(
          responses,
          GetSessionResponse.newBuilder().setSession(session()).setNextPageToken("1").build());
    }

    @Override
    public void listSessions(
        ListSessionsRequest request, StreamObserver<ListSessionsResponse> responses) {
      ListSessionsResponse.Builder page = ListSessionsResponse.newBuilder();
      answer(
          responses,
          request.getPageToken().isEmpty()
              ? page.setNextPageToken("2").build()
              : page.addSessions(session()).build());
    }
  }

  private final class Events extends EventServiceGrpc.EventServiceImplBase {
    @Override
    public void listEvents(
        ListEventsRequest request, StreamObserver<ListEventsResponse> responses) {
      ListEventsResponse.Builder page = ListEventsResponse.newBuilder();
      answer(
          responses,
          request.getPageToken().equals("2")
              ? page.addEvents(Event.newBuilder().setEventId("e").setSequence(1)).build()
              : page.setNextPageToken("2").build());
    }

    @Override
    public void appendEvent(
        AppendEventRequest request, StreamObserver<AppendEventResponse> responses) {
      appends.add(request);
      Event stored = request.getEvent().toBuilder().setSequence(2).build();
      answer(
          responses,
          AppendEventResponse.newBuilder()
              .setEvent(stored)
              .setSession(session().setLastSequence(2))
              .build());
    }
  }

  private static final class States extends StateServiceGrpc.StateServiceImplBase {
    @Override
    public void getState(GetStateRequest request, StreamObserver<GetStateResponse> responses) {
      GetStateResponse.Builder page = GetStateResponse.newBuilder().setUid("life");
      answer(
          responses,
          request.getPageToken().isEmpty()
              ? page.setStateJson("{}").setNextPageToken("2").build()
              : page.setStateJson("{\"a\":1}").build());
    }
  }
}
