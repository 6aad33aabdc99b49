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
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The channels of a service. The first one has all calls and the first watches, each further one
 * has watches only and ends with its last. They connect at their first call.
 */
final class Connection {

  /**
   * A server allows 256 streams on a connection, and whatever is begun beyond them waits in silence
   * until one ends. The rest is for calls.
   */
  private static final int WATCHES_PER_CHANNEL = 200;

  /**
   * A connection with calls in flight is pinged after this long without data, and closed if it
   * stays silent as long again.
   */
  private static final Duration KEEP_ALIVE = Duration.ofSeconds(20);

  private final ManagedChannelBuilder<?> builder;
  private final CallOptions options;
  private final Shared first;

  /** The first one and those that have watches; belongs to the monitor. */
  private final List<Shared> open = new ArrayList<>();

  private final CompletableSubject closed = CompletableSubject.create();

  Connection(
      Address address,
      ChannelCredentials credentials,
      @Nullable CallCredentials callCredentials,
      Consumer<ManagedChannelBuilder<?>> configure) {
    this.builder =
        Grpc.newChannelBuilder(address.target(), credentials)
            // Runs after interceptors that are added later, and keeps what they have set.
            .intercept(new CallMetadata())
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
    this.options = CallOptions.DEFAULT.withCallCredentials(callCredentials);
    this.first = new Shared();
    open.add(first);
  }

  /** The channel of all calls. */
  Shared first() {
    return first;
  }

  /** A channel for one more watch, which ends with {@link Shared#endWatch}. */
  synchronized Shared forWatch() {
    Shared free =
        open.stream().filter(one -> one.watches < WATCHES_PER_CHANNEL).findFirst().orElse(null);
    if (free == null) {
      free = new Shared();
      open.add(free);
    }
    free.watches++;
    return free;
  }

  private synchronized boolean hasEnded(Shared channel) {
    channel.watches--;
    return channel.watches == 0 && channel != first && open.remove(channel);
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
    // The watches have ended, and their channels with them.
    first.channel.shutdown();
    try {
      if (!first.channel.awaitTermination(grace.toNanos(), TimeUnit.NANOSECONDS)) {
        first.channel.shutdownNow();
      }
    } catch (InterruptedException e) {
      first.channel.shutdownNow();
      Thread.currentThread().interrupt();
    }
  }

  /** A channel with a connection of its own, and the number of its watches. */
  final class Shared {
    private final ManagedChannel channel = builder.build();
    private int watches;

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

    void endWatch() {
      if (hasEnded(this)) {
        channel.shutdown();
      }
    }
  }
}
