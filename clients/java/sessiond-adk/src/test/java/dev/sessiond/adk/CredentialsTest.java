package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.sessions.SessionKey;
import com.google.rpc.Code;
import io.grpc.CallCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** TLS and token files, from settings and from the environment. */
final class CredentialsTest extends ServerTest {

  private static final Scope SESSION = Scope.session(new SessionKey(APP, USER, "s"));
  private static final Delta DELTA = Delta.of(Map.of("app:k", 1));
  private static final RetryPolicy ONCE =
      new RetryPolicy(1, Duration.ofMillis(1), Duration.ofMillis(1));

  private TestServer serveTls(Certificates certificates, String... more) throws Exception {
    Certificates.Pair pair = certificates.issue("server");
    String[] arguments = new String[more.length + 4];
    System.arraycopy(more, 0, arguments, 4, more.length);
    System.arraycopy(
        new String[] {
          "--tls-cert", pair.certificate().toString(), "--tls-key", pair.key().toString()
        },
        0,
        arguments,
        0,
        4);
    Path folder = Files.createTempDirectory(directory, "server");
    return closing(TestServer.start(folder, MEMORY, "127.0.0.1:0", arguments));
  }

  private SessiondSessionService build(String address, Consumer<ServiceBuilder> settings) {
    ServiceBuilder builder =
        SessiondSessionService.builder(address).timeout(Duration.ofSeconds(120));
    settings.accept(builder);
    return closing(builder.build());
  }

  private static String https(TestServer server) {
    return "https://" + server.address().replace("https://", "");
  }

  private void assertUnavailable(String address, Consumer<ServiceBuilder> settings) {
    SessiondSessionService service = build(address, settings.andThen(to -> to.retry(ONCE)));
    assertThrows(
        SessiondUnavailableException.class, () -> service.listSessions(APP, USER).blockingGet());
  }

  /** One call and one watch. */
  private static void use(SessiondSessionService service) {
    service.updateState(Scope.app("a"), DELTA).blockingGet();
    assertThat(service.watch(SESSION).toList().blockingGet()).hasSize(1);
  }

  private Path token(String text) throws Exception {
    return Files.writeString(directory.resolve("token"), text + "\n");
  }

  @Test
  void theAuthorityOfTheServerIsTrusted() throws Exception {
    Certificates certificates = new Certificates(directory);
    TestServer server = serveTls(certificates);
    create(build(https(server), to -> to.tlsCa(certificates.ca)), Map.of());
    // Java does not trust this authority.
    assertUnavailable(https(server), to -> {});
  }

  @Test
  void theClientShowsItsCertificate() throws Exception {
    Certificates certificates = new Certificates(directory);
    TestServer server = serveTls(certificates, "--tls-client-ca", certificates.ca.toString());
    Certificates.Pair agent = certificates.issue("agent");
    create(
        build(
            https(server),
            to -> to.tlsCa(certificates.ca).clientCertificate(agent.certificate(), agent.key())),
        Map.of());
    assertUnavailable(https(server), to -> to.tlsCa(certificates.ca));
    Map<String, String> environment =
        Map.of(
            "SESSIOND_TLS_CA", certificates.ca.toString(),
            "SESSIOND_CLIENT_TLS_CERT", agent.certificate().toString(),
            "SESSIOND_CLIENT_TLS_KEY", agent.key().toString());
    create(build(https(server), to -> to.environment = environment), Map.of());
  }

  @Test
  void aServerWithTokensIsUsed() throws Exception {
    Path token = token("secret");
    byte[] digest = MessageDigest.getInstance("SHA-256").digest("secret".getBytes(UTF_8));
    Path hashes =
        Files.writeString(
            directory.resolve("tokens.toml"),
            "[[token]]\nname = \"agent\"\nsha256 = \"" + HexFormat.of().formatHex(digest) + "\"\n");
    TestServer server =
        closing(
            TestServer.start(
                directory, MEMORY, "127.0.0.1:0", "--token-hashes", hashes.toString()));
    SessiondSessionService with = build(server.address(), to -> to.tokenFile(token));
    Scope session = Scope.session(create(with, Map.of()).sessionKey());
    assertThat(with.watch(session).blockingFirst()).isInstanceOf(WatchItem.Snapshot.class);
    SessiondSessionService without = build(server.address(), to -> {});
    SessiondUnauthenticatedException refused =
        assertThrows(SessiondUnauthenticatedException.class, () -> create(without, Map.of()));
    assertThat(refused.call().reason()).isEqualTo("CREDENTIAL_MISSING");
    assertThrows(
        SessiondUnauthenticatedException.class, () -> without.watch(session).blockingFirst());
  }

  @Test
  void theTokenIsSentWithCallsAndWatches() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    Path token = token("secret");
    use(build(server.address(), to -> to.tokenFile(token)));
    use(build(server.address(), to -> {}));
    Map<String, String> environment = Map.of("SESSIOND_TOKEN_FILE", token.toString());
    use(build(server.address(), to -> to.environment = environment));
    assertThat(server.sent("authorization"))
        .containsExactly("Bearer secret", "Bearer secret", "", "", "Bearer secret", "Bearer secret")
        .inOrder();
  }

  @Test
  void aNewTokenIsSentAfterTheFileHasChanged() throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    Path token = token("old");
    Files.setLastModifiedTime(token, FileTime.fromMillis(1000));
    SessiondSessionService service = build(server.address(), to -> to.tokenFile(token));
    use(service);
    token("new");
    long deadline = System.nanoTime() + Duration.ofMinutes(5).toNanos();
    while (!server.sent("authorization").contains("Bearer new")) {
      assertThat(System.nanoTime()).isLessThan(deadline);
      use(service);
    }
    assertThat(server.sent("authorization").get(0)).isEqualTo("Bearer old");
  }

  @Test
  void theFileIsLookedAtOnceASecondAndTheLastTokenStays() throws Exception {
    AtomicLong millis = new AtomicLong();
    Path path = token("a");
    Files.setLastModifiedTime(path, FileTime.fromMillis(1000));
    TokenFile file =
        new TokenFile(
            new CredentialFiles.Source(path, "tokenFile"), () -> millis.get() * 1_000_000);
    token("b");
    Files.setLastModifiedTime(path, FileTime.fromMillis(2000));
    millis.addAndGet(900);
    assertThat(file.token()).isEqualTo("a");
    millis.addAndGet(100);
    assertThat(file.token()).isEqualTo("b");
    token("unread");
    Files.setLastModifiedTime(path, FileTime.fromMillis(2000));
    millis.addAndGet(1000);
    assertThat(file.token()).isEqualTo("b");
    token("");
    Files.setLastModifiedTime(path, FileTime.fromMillis(3000));
    millis.addAndGet(1000);
    assertThat(file.token()).isEqualTo("b");
    Files.delete(path);
    millis.addAndGet(1000);
    assertThat(file.token()).isEqualTo("b");
    token("c");
    Files.setLastModifiedTime(path, FileTime.fromMillis(3000));
    millis.addAndGet(1000);
    assertThat(file.token()).isEqualTo("c");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "sessions.example.com:50051",
        "http://10.0.0.1:1",
        "[2001:db8::1]:1",
        "0.0.0.0:1",
        "127.example.com:1"
      })
  void aTokenIsNotSentUnencrypted(String address) throws Exception {
    Path token = token("secret");
    for (Consumer<ServiceBuilder> settings :
        List.<Consumer<ServiceBuilder>>of(
            to -> to.tokenFile(token),
            to -> to.environment = Map.of("SESSIOND_TOKEN_FILE", token.toString()),
            to -> to.tokenFile(token).channelCredentials(InsecureChannelCredentials.create()))) {
      Exception refused =
          assertThrows(IllegalArgumentException.class, () -> build(address, settings));
      assertThat(refused)
          .hasMessageThat()
          .matches("Refusing to send a token to \\S+ without TLS. Use https://HOST:PORT.");
    }
    build(address, to -> to.tokenFile(token).channelCredentials(TlsChannelCredentials.create()));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "127.0.0.1:1",
        "127.8.8.8:1",
        "localhost:1",
        "[::1]:1",
        "[0:0:0:0:0:0:0:1]:1",
        "unix:/s",
        "https://h:1"
      })
  void aTokenMayBeSent(String address) throws Exception {
    Path token = token("secret");
    build(address, to -> to.tokenFile(token));
  }

  private void assertRefused(String message, String address, Consumer<ServiceBuilder> settings) {
    Exception refused =
        assertThrows(IllegalArgumentException.class, () -> build(address, settings));
    assertThat(refused).hasMessageThat().contains(message);
  }

  @Test
  void wrongFilesAreNamed() throws Exception {
    Path empty = Files.createFile(directory.resolve("empty"));
    Path missing = directory.resolve("missing");
    assertRefused(
        "tlsCa needs TLS, and h:1 has none. Use https://HOST:PORT.",
        "h:1",
        to -> to.tlsCa(missing));
    assertRefused(
        "clientCertificate needs TLS", "h:1", to -> to.clientCertificate(missing, missing));
    assertRefused(
        "SESSIOND_TLS_CA needs TLS",
        "h:1",
        to -> to.environment = Map.of("SESSIOND_TLS_CA", "ca.pem"));
    assertRefused(
        "belong together. Set both.",
        "https://h:1",
        to -> to.environment = Map.of("SESSIOND_CLIENT_TLS_KEY", "key.pem"));
    assertRefused("tlsCa: ", "https://h:1", to -> to.tlsCa(missing));
    assertRefused("tokenFile: ", "https://h:1", to -> to.tokenFile(missing));
    assertRefused("has no token", "https://h:1", to -> to.tokenFile(empty));
    assertRefused(
        "channelCredentials exclude tlsCa",
        "h:1",
        to -> to.tlsCa(missing).channelCredentials(TlsChannelCredentials.create()));
    CallCredentials own =
        new TokenFile(new CredentialFiles.Source(token("secret"), "own"), System::nanoTime);
    assertRefused(
        "callCredentials exclude tokenFile",
        "https://h:1",
        to -> to.tokenFile(missing).callCredentials(own));
    build("h:1", to -> to.environment = Map.of("SESSIOND_TLS_CA", ""));
  }

  @ParameterizedTest
  @CsvSource({
    "UNAUTHENTICATED,''", "UNAUTHENTICATED,REASON",
    "PERMISSION_DENIED,''", "PERMISSION_DENIED,REASON"
  })
  void refusedCredentialsAreNotRetried(Code code, String reason) throws Exception {
    ScriptedServer server = closing(new ScriptedServer());
    server.fail(code, reason, "no");
    server.fail(code, reason, "no");
    SessiondSessionService service = build(server.address(), to -> {});
    Class<? extends SessiondException> expected =
        code == Code.UNAUTHENTICATED
            ? SessiondUnauthenticatedException.class
            : SessiondPermissionDeniedException.class;
    assertThrows(expected, () -> service.updateState(Scope.app("a"), DELTA).blockingGet());
    assertThrows(expected, () -> service.watch(SESSION).toList().blockingGet());
    assertThat(server.headers).hasSize(2);
  }
}
