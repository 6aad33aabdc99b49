package dev.sessiond.adk;

import com.google.protobuf.Message;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import io.reactivex.rxjava3.core.Scheduler;
import io.reactivex.rxjava3.core.Single;
import io.reactivex.rxjava3.core.SingleEmitter;
import io.reactivex.rxjava3.schedulers.Schedulers;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * Calls the server with a deadline and with retries.
 *
 * <p>The server decides whether a call may be sent again. A retry sends the same request with the
 * same ids, so "yes" and "same_id" are alike here: an append has its event id, an update its
 * request id, and a new session a chosen id with a label of the creating call. A deletion has no
 * such id: if its response is lost, the retry also deletes a session that was created under the
 * same id in between.
 */
final class Calls {

  private final Connection connection;
  private final Duration timeout;
  private final Duration absence;
  private final RetryPolicy retry;
  private final Scheduler scheduler;

  /** Whether a server has ever answered, so that one which is away will probably be back. */
  private volatile boolean answered;

  /** {@code absence} is how long to look for a server that has never answered. */
  Calls(
      Connection connection,
      Duration timeout,
      Duration absence,
      RetryPolicy retry,
      Scheduler scheduler) {
    if (timeout.isNegative() || timeout.isZero()) {
      throw new IllegalArgumentException("timeout is " + timeout + ". It must be positive.");
    }
    this.connection = connection;
    this.timeout = timeout;
    this.absence = absence;
    this.retry = retry;
    this.scheduler = scheduler;
  }

  Connection connection() {
    return connection;
  }

  Duration timeout() {
    return timeout;
  }

  RetryPolicy retry() {
    return retry;
  }

  Scheduler scheduler() {
    return scheduler;
  }

  /**
   * Calls {@code method} when it is subscribed to. Disposing cancels the call, which may have been
   * applied all the same. The result is emitted on the scheduler, never on a thread of gRPC: the
   * rest of the agent runs there, in the OpenTelemetry context of the subscription.
   */
  <Q extends Message, R> Single<R> call(MethodDescriptor<Q, R> method, Q request) {
    return Single.defer(
        () -> {
          long deadline = System.nanoTime() + timeout.toNanos();
          Context context = CallMetadata.fork(request);
          AtomicInteger attempts = new AtomicInteger();
          Single<R> result =
              Single.defer(() -> once(method, request, context, Math.max(left(deadline), 0)))
                  // Recursion would nest an operator per attempt.
                  .retryWhen(
                      failures ->
                          failures.concatMapSingle(
                              failure -> pause(failure, attempts.incrementAndGet(), deadline)))
                  .observeOn(scheduler);
          return CallMetadata.resume(context, result);
        });
  }

  private static long left(long deadline) {
    return deadline - System.nanoTime();
  }

  /** Waits before the next attempt, or emits the error that ends the call. */
  private Single<Long> pause(Throwable failure, int attempts, long deadline) {
    FailedCall failed = FailedCall.of(failure, attempts);
    if (failed.code() != Status.Code.UNAVAILABLE || !failed.reason().isEmpty()) {
      answered = true;
    }
    long end = answered ? deadline : deadline - timeout.toNanos() + absence.toNanos();
    if (connection.isClosed() && isCutOff(failed)) {
      return Single.error(Errors.closed(attempts, failure));
    }
    Duration delay = retry.delay(attempts, failed.retryAfter());
    // Waiting past the end would replace this error by one that says less.
    if (failed.retryable() == FailedCall.Retryable.NO
        || attempts >= retry.attempts()
        || delay.toNanos() >= left(end)) {
      return Single.error(Errors.of(failed, failure));
    }
    return waitUnlessClosed(delay).doOnSuccess(waited -> connection.first().reconnectNow());
  }

  /** Whether closing the service explains the failure. */
  private static boolean isCutOff(FailedCall failed) {
    return failed.reason().isEmpty()
        && (failed.code() == Status.Code.UNAVAILABLE || failed.code() == Status.Code.CANCELLED);
  }

  Single<Long> waitUnlessClosed(Duration delay) {
    return Single.timer(delay.toNanos(), TimeUnit.NANOSECONDS, Schedulers.computation())
        .takeUntil(connection.whenClosed())
        .onErrorResumeNext(
            failure -> Single.error(connection.isClosed() ? Errors.closed(1, failure) : failure));
  }

  private <Q, R> Single<R> once(
      MethodDescriptor<Q, R> method, Q request, Context context, long nanos) {
    return Single.create(
        emitter -> {
          ClientCall<Q, R> call =
              connection.first().newCall(method, context, Duration.ofNanos(nanos));
          emitter.setCancellable(() -> call.cancel("The subscriber has disposed the call.", null));
          ClientCalls.asyncUnaryCall(call, request, new Observer<>(emitter, () -> answered = true));
        });
  }

  private static final class Observer<R> implements StreamObserver<R> {
    private final SingleEmitter<R> emitter;
    private final Runnable answered;
    private @Nullable R response;

    Observer(SingleEmitter<R> emitter, Runnable answered) {
      this.emitter = emitter;
      this.answered = answered;
    }

    @Override
    public void onNext(R value) {
      response = value;
      answered.run();
    }

    @Override
    public void onError(Throwable failure) {
      // After disposal there is no observer for an error.
      emitter.tryOnError(failure);
    }

    @Override
    public void onCompleted() {
      if (response != null) {
        emitter.onSuccess(response);
      } else {
        emitter.tryOnError(
            Status.INTERNAL.withDescription("The response is missing.").asRuntimeException());
      }
    }
  }
}
