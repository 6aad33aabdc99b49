package dev.sessiond.adk;

import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.reactivex.rxjava3.core.Completable;
import io.reactivex.rxjava3.subjects.CompletableSubject;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** The channel of a service. It connects at the first call, and ends with {@link #close}. */
final class Connection {

  /**
   * A connection with calls in flight is pinged after this long without data, and closed if it
   * stays silent as long again.
   */
  private static final Duration KEEP_ALIVE = Duration.ofSeconds(20);

  private final ManagedChannel channel;
  private final CallOptions options;
  private final CompletableSubject closed = CompletableSubject.create();

  Connection(
      Address address,
      ChannelCredentials credentials,
      @Nullable CallCredentials callCredentials,
      Consumer<ManagedChannelBuilder<?>> configure) {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(address.target(), credentials)
            // Runs after interceptors that are added later, and keeps what they have set.
            .intercept(new TraceContext())
            // Calls does the retries, as it knows which calls may be sent again.
            .disableRetry()
            .keepAliveTime(KEEP_ALIVE.toSeconds(), TimeUnit.SECONDS)
            .keepAliveTimeout(KEEP_ALIVE.toSeconds(), TimeUnit.SECONDS);
    if (!address.isUnix()) {
      // The server is local; the proxies of the environment are meant for other hosts.
      builder.proxyDetector(server -> null);
    }
    if (!address.authority().isEmpty()) {
      builder.overrideAuthority(address.authority());
    }
    configure.accept(builder);
    this.channel = builder.build();
    this.options = CallOptions.DEFAULT.withCallCredentials(callCredentials);
  }

  /**
   * Begins a call with a deadline of its own: a call of the server around us must not end ours by
   * its deadline or its cancellation, but its tracing keys stay.
   */
  <Q, R> ClientCall<Q, R> newCall(
      MethodDescriptor<Q, R> method, Context context, @Nullable Duration timeout) {
    Context previous = context.attach();
    try {
      return channel.newCall(
          method,
          timeout == null
              ? options
              : options.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS));
    } finally {
      context.detach(previous);
    }
  }

  /**
   * gRPC's own backoff of 1 s to 2 minutes would keep the channel down after the server is back.
   */
  void reconnectNow() {
    channel.resetConnectBackoff();
  }

  boolean isClosed() {
    return closed.hasComplete();
  }

  /** Completes when the service is closed. */
  Completable whenClosed() {
    return closed;
  }

  /** Waits up to {@code grace} for in-flight calls, and cancels the others. Idempotent. */
  void close(Duration grace) {
    closed.onComplete();
    channel.shutdown();
    try {
      if (!channel.awaitTermination(grace.toNanos(), TimeUnit.NANOSECONDS)) {
        channel.shutdownNow();
      }
    } catch (InterruptedException e) {
      channel.shutdownNow();
      Thread.currentThread().interrupt();
    }
  }
}
