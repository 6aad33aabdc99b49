package dev.sessiond.adk;

import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.AppendEventResponse;
import dev.sessiond.v1.EventServiceGrpc;
import dev.sessiond.v1.Session;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A server that answers an append when the test says so. */
final class HeldServer extends EventServiceGrpc.EventServiceImplBase implements AutoCloseable {

  /** An append without a response. */
  record Held(AppendEventRequest request, StreamObserver<AppendEventResponse> responses) {

    /** The event is stored as {@code sequence}, and the state is then {@code state}. */
    void store(long sequence, String state) {
      responses.onNext(
          AppendEventResponse.newBuilder()
              .setEvent(request.getEvent().toBuilder().setSequence(sequence))
              .setSession(
                  Session.newBuilder()
                      .setKey(request.getKey())
                      .setUid("life")
                      .setLastSequence(sequence)
                      .setStateJson(state))
              .build());
      responses.onCompleted();
    }

    void refuse() {
      responses.onError(Status.RESOURCE_EXHAUSTED.asRuntimeException());
    }
  }

  private final BlockingQueue<Held> appends = new LinkedBlockingQueue<>();
  private final Server server;

  HeldServer() throws IOException {
    server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(this)
            .build()
            .start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  /** The next append, once it has arrived. */
  Held next() throws InterruptedException {
    Held next = appends.poll(60, TimeUnit.SECONDS);
    if (next == null) {
      throw new AssertionError("No append has arrived.");
    }
    return next;
  }

  @Override
  public void appendEvent(
      AppendEventRequest request, StreamObserver<AppendEventResponse> responses) {
    appends.add(new Held(request, responses));
  }

  @Override
  public void close() {
    server.shutdownNow();
  }
}
