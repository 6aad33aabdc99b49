package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.sessions.SessionKey;
import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Calls and watches carry a hint, by which balancers can keep those of a user on one replica. */
final class AffinityTest extends ServerTest {

  private static final String OF_USER = "5bdd9aa445874270";
  private static final String OF_APP = "ffe9aaeaa2a2d504";

  private static void use(SessiondSessionService service) {
    Delta delta = Delta.of(Map.of("app:k", 1));
    service.updateState(Scope.user("a", "u"), delta).blockingGet();
    service.updateState(Scope.app("a"), delta).blockingGet();
    service.watch(Scope.session(new SessionKey("a", "u", "s"))).blockingSubscribe();
  }

  @Test
  void callsAndWatchesCarryTheHint() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    use(closing(new SessiondSessionService(server.address())));
    assertThat(server.sent("sessiond-affinity"))
        .containsExactly(OF_USER, OF_APP, OF_USER)
        .inOrder();
  }

  @Test
  void whatAnInterceptorHasSetStays() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    Metadata own = new Metadata();
    own.put(Metadata.Key.of("sessiond-affinity", Metadata.ASCII_STRING_MARSHALLER), "mine");
    use(
        closing(
            SessiondSessionService.builder(server.address())
                .configureChannel(
                    channel -> channel.intercept(MetadataUtils.newAttachHeadersInterceptor(own)))
                .build()));
    assertThat(server.sent("sessiond-affinity")).containsExactly("mine", "mine", "mine");
  }
}
