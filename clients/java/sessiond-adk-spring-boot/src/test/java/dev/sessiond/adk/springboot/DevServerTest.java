package dev.sessiond.adk.springboot;

import static com.google.common.truth.Truth.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.adk.sessions.Session;
import dev.sessiond.adk.SessiondSessionService;
import dev.sessiond.adk.TestServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** ADK's dev server, started as its users start it, with the auto-configuration. */
final class DevServerTest {

  private static final Pattern STARTED = Pattern.compile("Tomcat started on port (\\d+)");
  private static final ObjectMapper MAPPER = new ObjectMapper();

  @TempDir Path directory;

  private final HttpClient http = HttpClient.newHttpClient();

  @Test
  void sessionsOutliveBothProcesses() throws Exception {
    try (TestServer store = TestServer.start(directory, "sqlite:dev.db")) {
      String sessions = "/apps/counter/users/alice/sessions";
      Process first = startDevServer(store.address());
      String session;
      try {
        int port = port(first);
        JsonNode created = call(port, sessions, "{\"state\":{\"user:lang\":\"no\"}}");
        session = created.get("id").asText();
        assertThat(run(port, session, "hello")).contains("messages: 1");
        assertThat(run(port, session, "again")).contains("messages: 3");
      } finally {
        first.destroyForcibly().waitFor();
      }
      store.kill();
      store.startAgain();

      Process second = startDevServer(store.address());
      try {
        int port = port(second);
        // The model sees the conversation of the first process.
        assertThat(run(port, session, "still there?")).contains("messages: 5");
        JsonNode read = call(port, sessions + "/" + session, null);
        assertThat(read.at("/state/user:turns").asInt()).isEqualTo(3);
        assertThat(read.at("/state/user:lang").asText()).isEqualTo("no");
        assertThat(call(port, sessions, null)).hasSize(1);
      } finally {
        second.destroyForcibly().waitFor();
      }
      try (SessiondSessionService service = new SessiondSessionService(store.address())) {
        Session stored =
            service.getSession("counter", "alice", session, Optional.empty()).blockingGet();
        assertThat(stored.state()).containsEntry("user:turns", 3);
        assertThat(stored.events().get(0).stringifyContent()).isEqualTo("hello");
      }
    }
  }

  private Process startDevServer(String target) throws IOException {
    ProcessBuilder builder =
        new ProcessBuilder(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx400m",
            "-XX:TieredStopAtLevel=1",
            "-Dserver.port=0",
            "-Dserver.address=127.0.0.1",
            "-Dsessiond.target=" + target,
            "-Dsessiond.timeout=120s",
            "-cp",
            System.getProperty("java.class.path"),
            DevServer.class.getName());
    builder.redirectErrorStream(true);
    return builder.start();
  }

  /** The port that the server has printed. Its further output goes into a file. */
  private int port(Process process) throws Exception {
    Path log = Files.createTempFile(directory, "dev-server", ".log");
    CompletableFuture<Integer> port = new CompletableFuture<>();
    Thread reader =
        new Thread(
            () -> {
              try (BufferedReader output =
                  new BufferedReader(
                      new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
                StringBuilder text = new StringBuilder();
                for (String line = output.readLine(); line != null; line = output.readLine()) {
                  text.append(line).append('\n');
                  Files.writeString(log, text);
                  Matcher found = STARTED.matcher(line);
                  if (found.find()) {
                    port.complete(Integer.parseInt(found.group(1)));
                  }
                }
                port.completeExceptionally(new IOException("The dev server ended:\n" + text));
              } catch (IOException e) {
                port.completeExceptionally(e);
              }
            });
    reader.setDaemon(true);
    reader.start();
    return port.get(300, TimeUnit.SECONDS);
  }

  private String run(int port, String session, String text) throws Exception {
    String body =
        "{\"appName\":\"counter\",\"userId\":\"alice\",\"sessionId\":\""
            + session
            + "\",\"newMessage\":{\"role\":\"user\",\"parts\":[{\"text\":\""
            + text
            + "\"}]}}";
    return call(port, "/run", body).toString();
  }

  /** Posts a body, or gets without one. */
  private JsonNode call(int port, String path, String body) throws Exception {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
            .header("Content-Type", "application/json");
    if (body != null) {
      request.POST(HttpRequest.BodyPublishers.ofString(body));
    }
    HttpResponse<String> response =
        http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    assertThat(response.statusCode()).isEqualTo(200);
    return MAPPER.readTree(response.body());
  }
}
