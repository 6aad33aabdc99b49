package dev.sessiond.adk;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.sessiond.v1.SessionDeleted;
import dev.sessiond.v1.StateServiceGrpc;
import dev.sessiond.v1.UpdateStateRequest;
import dev.sessiond.v1.UpdateStateResponse;
import dev.sessiond.v1.WatchRequest;
import dev.sessiond.v1.WatchResponse;
import dev.sessiond.v1.WatchServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** A server that fails as the script says, one failure per request. */
final class ScriptedServer extends StateServiceGrpc.StateServiceImplBase
    implements AutoCloseable, ServerInterceptor {
  final Queue<String> requestIds = new ConcurrentLinkedQueue<>();
  final Queue<Metadata> headers = new ConcurrentLinkedQueue<>();
  final Queue<String> cursors = new ConcurrentLinkedQueue<>();

  /** A watch sends the next one, if any, before it fails. */
  final Queue<WatchResponse> beforeFailures = new ArrayDeque<>();

  private final Queue<StatusRuntimeException> failures = new ArrayDeque<>();
  private final Server server;

  /** Watches whose session is deleted at once. */
  private final WatchServiceGrpc.WatchServiceImplBase watches =
      new WatchServiceGrpc.WatchServiceImplBase() {
        @Override
        public void watch(WatchRequest request, StreamObserver<WatchResponse> responses) {
          cursors.add(request.getCursor());
          StatusRuntimeException failure = failures.poll();
          if (failure != null) {
            WatchResponse before = beforeFailures.poll();
            if (before != null) {
              responses.onNext(before);
            }
            responses.onError(failure);
            return;
          }
          responses.onNext(
              WatchResponse.newBuilder()
                  .setCursor("c")
                  .setSessionDeleted(SessionDeleted.getDefaultInstance())
                  .build());
          responses.onCompleted();
        }
      };

  ScriptedServer() throws IOException {
    server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(this)
            .addService(watches)
            .intercept(this)
            .build()
            .start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  /** The value that each call and watch has sent under a name, or "". */
  List<String> sent(String name) {
    Metadata.Key<String> key = Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    return headers.stream().map(one -> one.containsKey(key) ? one.get(key) : "").toList();
  }

  void fail(Code code, String reason, String retryable) {
    fail(code, reason, retryable, 0);
  }

  void fail(Code code, String reason, String retryable, long retryAfterSeconds) {
    fail(code, reason, Map.of("retryable", retryable), retryAfterSeconds);
  }

  void fail(Code code, String reason, Map<String, String> metadata, long retryAfterSeconds) {
    var status = com.google.rpc.Status.newBuilder().setCode(code.getNumber()).setMessage("why");
    if (!reason.isEmpty()) {
      status.addDetails(
          Any.pack(
              ErrorInfo.newBuilder()
                  .setDomain("sessiond")
                  .setReason(reason)
                  .putAllMetadata(metadata)
                  .build()));
    }
    if (retryAfterSeconds > 0) {
      status.addDetails(
          Any.pack(
              RetryInfo.newBuilder()
                  .setRetryDelay(Duration.newBuilder().setSeconds(retryAfterSeconds))
                  .build()));
    }
    failures.add(StatusProto.toStatusRuntimeException(status.build()));
  }

  @Override
  public void updateState(
      UpdateStateRequest request, StreamObserver<UpdateStateResponse> responses) {
    requestIds.add(request.getRequestId());
    StatusRuntimeException failure = failures.poll();
    if (failure != null) {
      responses.onError(failure);
      return;
    }
    responses.onNext(
        UpdateStateResponse.newBuilder().setStateJson(request.getDelta().getSetJson()).build());
    responses.onCompleted();
  }

  @Override
  public <Q, R> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, R> call, Metadata sent, ServerCallHandler<Q, R> next) {
    headers.add(sent);
    return next.startCall(call, sent);
  }

  @Override
  public void close() {
    server.shutdownNow();
  }
}
