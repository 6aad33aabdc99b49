package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.sessions.SessionKey;
import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Context;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;

/** Calls and watches carry the trace context of the caller's span. */
final class TraceContextTest extends ServerTest {

  private static final String TRACE = "0102030405060708090a0b0c0d0e0f10";
  private static final String SPAN = "1112131415161718";
  private static final String TRACEPARENT = "00-" + TRACE + "-" + SPAN + "-01";
  private static final Delta DELTA = Delta.of(Map.of("app:k", 1));

  private static void inSpan(Callable<Void> call) throws Exception {
    SpanContext span =
        SpanContext.create(TRACE, SPAN, TraceFlags.getSampled(), TraceState.getDefault());
    Context.root().with(Span.wrap(span)).wrap(call).call();
  }

  private static Void use(SessiondSessionService service) {
    service.updateState(Scope.app("a"), DELTA).blockingGet();
    service.watch(Scope.session(new SessionKey(APP, USER, "s"))).blockingSubscribe();
    return null;
  }

  @Test
  void callsAndWatchesCarryTheSpanAndNothingOutsideOfOne() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    SessiondSessionService service = closing(new SessiondSessionService(server.address()));
    inSpan(() -> use(service));
    use(service);
    assertThat(server.sent("traceparent"))
        .containsExactly(TRACEPARENT, TRACEPARENT, "", "")
        .inOrder();
  }

  @Test
  void aRetryCarriesTheSpanOfItsCall() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    server.fail(com.google.rpc.Code.UNAVAILABLE, "STARTING", "yes");
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(server.address())
                .retry(new RetryPolicy(5, Duration.ofMillis(1), Duration.ofMillis(2)))
                .build());
    inSpan(() -> use(service));
    assertThat(server.sent("traceparent")).containsExactly(TRACEPARENT, TRACEPARENT, TRACEPARENT);
  }

  @Test
  void aSpanThatThrowsEndsNoCall() throws Exception {
    SpanContext broken =
        (SpanContext)
            Proxy.newProxyInstance(
                SpanContext.class.getClassLoader(),
                new Class<?>[] {SpanContext.class},
                (proxy, method, arguments) -> {
                  if (method.getName().equals("isValid")) {
                    return true;
                  }
                  throw new IllegalStateException("a fault of another tracer");
                });
    ScriptedServer server = closing(new ScriptedServer());
    SessiondSessionService service = closing(new SessiondSessionService(server.address()));
    try (Logged logged = new Logged(CallMetadata.class)) {
      Context.root().with(Span.wrap(broken)).wrap(() -> use(service)).call();
      assertThat(logged.messages()).hasSize(2);
    }
    assertThat(server.sent("traceparent")).containsExactly("", "");
  }

  @Test
  void theAgentGoesOnInItsSpan() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    SessiondSessionService service = closing(new SessiondSessionService(server.address()));
    inSpan(
        () -> {
          String after =
              service
                  .updateState(Scope.app("a"), DELTA)
                  .map(state -> Span.current().getSpanContext().getTraceId())
                  .blockingGet();
          assertThat(after).isEqualTo(TRACE);
          return null;
        });
  }

  @Test
  void whatAnInterceptorHasSetStays() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    Metadata own = new Metadata();
    own.put(Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER), "mine");
    SessiondSessionService service =
        closing(
            SessiondSessionService.builder(server.address())
                .configureChannel(
                    channel -> channel.intercept(MetadataUtils.newAttachHeadersInterceptor(own)))
                .build());
    inSpan(() -> use(service));
    assertThat(server.sent("traceparent")).containsExactly("mine", "mine");
  }
}
