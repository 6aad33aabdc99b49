package dev.sessiond.adk;

import com.google.adk.telemetry.Tracing;
import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.reactivex.rxjava3.core.Single;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends the OpenTelemetry context of the caller as {@code traceparent} and {@code tracestate}, and
 * the hint of {@link Affinity} as {@code sessiond-affinity}.
 */
final class CallMetadata implements ClientInterceptor {

  private static final Logger logger = LoggerFactory.getLogger(CallMetadata.class);

  private static final Context.Key<io.opentelemetry.context.Context> SPAN =
      Context.key("sessiond-span");

  private static final Context.Key<String> AFFINITY = Context.key("sessiond-affinity");

  /**
   * gRPC's context of a call that begins now and concerns {@code target}: its request or its scope.
   * Attempts run on threads that know no span.
   */
  static Context fork(Message target) {
    return Context.current()
        .withValues(SPAN, io.opentelemetry.context.Context.current(), AFFINITY, Affinity.of(target))
        .fork();
  }

  /** Emits the result of a call in the context in which it began: the agent goes on from there. */
  static <T> Single<T> resume(Context call, Single<T> result) {
    return result.compose(Tracing.withContext(SPAN.get(call)));
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    io.opentelemetry.context.Context span = SPAN.get();
    String affinity = AFFINITY.get();
    return new SimpleForwardingClientCall<Q, R>(next.newCall(method, options)) {
      @Override
      public void start(Listener<R> listener, Metadata headers) {
        if (span != null) {
          inject(span, headers);
        }
        if (affinity != null) {
          put(headers, "sessiond-affinity", affinity);
        }
        super.start(listener, headers);
      }
    };
  }

  /** A fault of what only observes must not end the call. */
  private static void inject(io.opentelemetry.context.Context span, Metadata headers) {
    try {
      // Not the propagators of GlobalOpenTelemetry: asking for them would initialize it before
      // the application has.
      W3CTraceContextPropagator.getInstance().inject(span, headers, CallMetadata::put);
    } catch (RuntimeException e) {
      logger.warn("a call is sent without its trace context", e);
    }
  }

  /** Entries of the caller's own interceptors stay. */
  private static void put(Metadata headers, String name, String value) {
    Metadata.Key<String> key = Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    if (!headers.containsKey(key)) {
      headers.put(key, value);
    }
  }
}
