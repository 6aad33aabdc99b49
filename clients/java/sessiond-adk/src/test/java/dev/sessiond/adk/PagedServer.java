package dev.sessiond.adk;

import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.AppendEventResponse;
import dev.sessiond.v1.CaughtUp;
import dev.sessiond.v1.CreateSessionRequest;
import dev.sessiond.v1.CreateSessionResponse;
import dev.sessiond.v1.EventServiceGrpc;
import dev.sessiond.v1.ForkOrigin;
import dev.sessiond.v1.ForkSessionRequest;
import dev.sessiond.v1.ForkSessionResponse;
import dev.sessiond.v1.GetSessionRequest;
import dev.sessiond.v1.GetSessionResponse;
import dev.sessiond.v1.GetStateRequest;
import dev.sessiond.v1.GetStateResponse;
import dev.sessiond.v1.ListSessionsRequest;
import dev.sessiond.v1.ListSessionsResponse;
import dev.sessiond.v1.Session;
import dev.sessiond.v1.SessionDeleted;
import dev.sessiond.v1.SessionServiceGrpc;
import dev.sessiond.v1.StateServiceGrpc;
import dev.sessiond.v1.StateSnapshot;
import dev.sessiond.v1.UpdateStateRequest;
import dev.sessiond.v1.UpdateStateResponse;
import dev.sessiond.v1.WatchRequest;
import dev.sessiond.v1.WatchResponse;
import dev.sessiond.v1.WatchServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** A server whose state fits into no response: it comes in pages of one key. */
final class PagedServer implements AutoCloseable {

  private static final List<String> PAGES = List.of("{\"app:a\":1}", "{\"user:b\":2}", "{\"c\":3}");
  private static final List<String> KEYS = List.of("app:a", "user:b", "c");

  /** How a subscriber requests the items of a watch. */
  enum Demand {
    ALL(Long.MAX_VALUE, 1),
    SOME(2, 1),
    ONE(0, 1);

    final long initial;
    final long more;

    Demand(long initial, long more) {
      this.initial = initial;
      this.more = more;
    }
  }

  final Queue<AppendEventRequest> appends = new ConcurrentLinkedQueue<>();
  final AtomicInteger reads = new AtomicInteger();

  /** The lives that the next first pages belong to. */
  final Queue<String> livesOfPages = new ConcurrentLinkedQueue<>();

  volatile List<String> damaged = List.of();
  private volatile String life = "life-1";
  private final Server server;

  PagedServer() throws IOException {
    server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(new Sessions())
            .addService(new States())
            .addService(new Events())
            .addService(new Watches())
            .build()
            .start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  private Session.Builder session() {
    Session.Builder session = Session.newBuilder().setUid("life-1").setStateOmitted(true);
    session.getKeyBuilder().setAppName(ServerTest.APP).setUserId(ServerTest.USER).setSessionId("s");
    return session.addAllDamagedKeys(damaged);
  }

  private static <R> void answer(StreamObserver<R> responses, R response) {
    responses.onNext(response);
    responses.onCompleted();
  }

  private final class Sessions extends SessionServiceGrpc.SessionServiceImplBase {
    @Override
    public void createSession(
        CreateSessionRequest request, StreamObserver<CreateSessionResponse> responses) {
      answer(responses, CreateSessionResponse.newBuilder().setSession(session()).build());
    }

    @Override
    public void getSession(
        GetSessionRequest request, StreamObserver<GetSessionResponse> responses) {
      reads.incrementAndGet();
      // The first page of the state tells whether another life has come.
      life = livesOfPages.isEmpty() ? "life-1" : livesOfPages.remove();
      answer(responses, GetSessionResponse.newBuilder().setSession(session()).build());
    }

    @Override
    public void listSessions(
        ListSessionsRequest request, StreamObserver<ListSessionsResponse> responses) {
      life = livesOfPages.isEmpty() ? "life-1" : livesOfPages.remove();
      answer(responses, ListSessionsResponse.newBuilder().addSessions(session()).build());
    }

    @Override
    public void forkSession(
        ForkSessionRequest request, StreamObserver<ForkSessionResponse> responses) {
      ForkOrigin origin = ForkOrigin.newBuilder().setKey(request.getKey()).build();
      answer(
          responses,
          ForkSessionResponse.newBuilder().setSession(session().setForkedFrom(origin)).build());
    }
  }

  private final class States extends StateServiceGrpc.StateServiceImplBase {
    @Override
    public void getState(GetStateRequest request, StreamObserver<GetStateResponse> responses) {
      int page = request.getPageToken().isEmpty() ? 0 : Integer.parseInt(request.getPageToken());
      GetStateResponse.Builder response =
          GetStateResponse.newBuilder().setStateJson(PAGES.get(page)).setUid(life);
      if (request.getIncludeVersions()) {
        response.putVersions(KEYS.get(page), 11 + page);
      }
      if (page + 1 < PAGES.size()) {
        response.setNextPageToken(Integer.toString(page + 1));
      }
      answer(responses, response.addAllDamagedKeys(damaged).build());
    }

    @Override
    public void updateState(
        UpdateStateRequest request, StreamObserver<UpdateStateResponse> responses) {
      answer(responses, UpdateStateResponse.newBuilder().setStateOmitted(true).build());
    }
  }

  private final class Events extends EventServiceGrpc.EventServiceImplBase {
    @Override
    public void appendEvent(
        AppendEventRequest request, StreamObserver<AppendEventResponse> responses) {
      appends.add(request);
      answer(
          responses,
          AppendEventResponse.newBuilder()
              .setEvent(request.getEvent().toBuilder().setSequence(1))
              .setSession(session().setLastSequence(1))
              .build());
    }
  }

  private static final class Watches extends WatchServiceGrpc.WatchServiceImplBase {
    @Override
    public void watch(WatchRequest request, StreamObserver<WatchResponse> responses) {
      StateSnapshot.Builder snapshot =
          StateSnapshot.newBuilder().setUid("life-1").setStateOmitted(true);
      responses.onNext(WatchResponse.newBuilder().setCursor("1").setSnapshot(snapshot).build());
      responses.onNext(
          WatchResponse.newBuilder()
              .setCursor("2")
              .setCaughtUp(CaughtUp.getDefaultInstance())
              .build());
      responses.onNext(
          WatchResponse.newBuilder()
              .setCursor("3")
              .setSessionDeleted(SessionDeleted.getDefaultInstance())
              .build());
    }
  }
}
