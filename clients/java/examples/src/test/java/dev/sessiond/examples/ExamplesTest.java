package dev.sessiond.examples;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.sessiond.adk.SessiondSessionService;
import dev.sessiond.adk.TestServer;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The examples run against a real server. */
final class ExamplesTest {

  @TempDir Path directory;

  @Test
  void theExampleRuns() throws Exception {
    try (TestServer server = TestServer.start(directory, "memory:")) {
      String output =
          printed(
              () -> {
                Example.main(new String[] {server.address()});
                return null;
              });
      assertThat(output).contains("You said: Will it rain?");
      assertThat(output).contains("You said: And tomorrow?");
      assertThat(output).contains("7 events, state");
      assertThat(output).contains("last_answer=You said: And tomorrow?");
      assertThat(output).contains("user:turns=2");
    }
  }

  @Test
  void theWorkerWorksOnASharedSession() throws Exception {
    try (TestServer server = TestServer.start(directory, "memory:");
        SessiondSessionService service = new SessiondSessionService(server.address())) {
      service.createSession("a", "u", Map.of(), "s").blockingGet();
      together(server, "turn", "hello");
      together(server, "increment", "20");
      together(server, "put", "big", "[123456789012345678901234567890]");
      JsonNode dump = new ObjectMapper().readTree(together(server, "dump"));
      assertThat(dump.at("/state/java:turn").asText()).isEqualTo("hello");
      assertThat(dump.at("/state/user:turns").asInt()).isEqualTo(20);
      assertThat(dump.at("/state/big/0").bigIntegerValue().toString())
          .isEqualTo("123456789012345678901234567890");
      assertThat(dump.get("events").findValuesAsText("text"))
          .containsAtLeast("hello", "java heard hello")
          .inOrder();
      assertThat(dump.at("/events/0/author").asText()).isEqualTo("user");
      assertThrows(IllegalArgumentException.class, () -> together(server, "dance"));
    }
  }

  private static String together(TestServer server, String... command) throws Exception {
    String[] args = new String[4 + command.length];
    System.arraycopy(new String[] {server.address(), "a", "u", "s"}, 0, args, 0, 4);
    System.arraycopy(command, 0, args, 4, command.length);
    return printed(
        () -> {
          Together.main(args);
          return null;
        });
  }

  private static String printed(Callable<Void> program) throws Exception {
    PrintStream before = System.out;
    ByteArrayOutputStream output = new ByteArrayOutputStream();
    System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
    try {
      program.call();
    } finally {
      System.setOut(before);
    }
    return output.toString(StandardCharsets.UTF_8);
  }
}
