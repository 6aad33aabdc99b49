package dev.sessiond.adk;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A real {@code sessiond serve} on a free port, which ends with the test. */
public final class TestServer implements AutoCloseable {

  /** Generous for busy machines. */
  private static final long START_SECONDS = 300;

  private static final Pattern LISTENING = Pattern.compile("listen(?:s|ing) on (\\S+)");

  private final Path directory;
  private final String store;
  private final List<String> more;
  private Process process;
  private String address;

  private TestServer(Path directory, String store, String listen, List<String> more)
      throws IOException {
    this.directory = directory;
    this.store = store;
    this.more = more;
    start(listen);
  }

  /** Starts a server with {@code memory:} or {@code sqlite:FILE}, and further arguments. */
  public static TestServer start(Path directory, String store, String listen, String... more)
      throws IOException {
    return new TestServer(directory, store, listen, List.of(more));
  }

  /** Starts a server on a free loopback port. */
  public static TestServer start(Path directory, String store) throws IOException {
    return start(directory, store, "127.0.0.1:0");
  }

  /** The address that the server has printed. */
  public String address() {
    return address;
  }

  /** Kills it, as a crash does. */
  public void kill() throws InterruptedException {
    process.destroyForcibly();
    process.waitFor(START_SECONDS, TimeUnit.SECONDS);
  }

  /** Stops it gracefully. */
  public void stop() throws InterruptedException {
    process.destroy();
    process.waitFor(START_SECONDS, TimeUnit.SECONDS);
  }

  /** Starts it with the same address and store. */
  public void startAgain() throws IOException {
    start(address);
  }

  @Override
  public void close() {
    // Its folder goes next.
    process.destroyForcibly().onExit().join();
  }

  /** A service with a deadline that a busy machine keeps. No test measures calls. */
  public ServiceBuilder service() {
    return SessiondSessionService.builder(address).timeout(java.time.Duration.ofSeconds(120));
  }

  private void start(String listen) throws IOException {
    List<String> command = new ArrayList<>(List.of(program().toString(), "serve"));
    command.addAll(List.of("--http-listen", "off", "--listen", listen, "--store", store));
    command.addAll(more);
    ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile());
    // The environment may configure a sessiond of its own.
    builder.environment().keySet().removeIf(name -> name.startsWith("SESSIOND_"));
    Path log = directory.resolve("server.log");
    builder.redirectError(ProcessBuilder.Redirect.appendTo(log.toFile()));
    process = builder.start();
    FutureTask<String> reading = new FutureTask<>(this::readAddress);
    Thread reader = new Thread(reading, "server-output");
    reader.setDaemon(true);
    reader.start();
    try {
      address = reading.get(START_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException | InterruptedException e) {
      process.destroyForcibly();
      throw new IOException("The server did not start: " + Files.readString(log), e);
    }
  }

  private String readAddress() throws IOException {
    BufferedReader output =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    StringBuilder text = new StringBuilder();
    for (String line = output.readLine(); line != null; line = output.readLine()) {
      text.append(line).append('\n');
      Matcher found = LISTENING.matcher(line);
      if (found.find()) {
        return found.group(1);
      }
    }
    throw new IOException("The server ended: " + text);
  }

  /** SESSIOND_TEST_PROGRAM, or the newest build of cargo. No test is skipped without it. */
  private static Path program() throws IOException {
    String named = System.getenv("SESSIOND_TEST_PROGRAM");
    if (named != null) {
      Path path = Path.of(named).toAbsolutePath();
      if (!Files.isExecutable(path)) {
        throw new IOException("SESSIOND_TEST_PROGRAM is " + named + ", which is not executable.");
      }
      return path;
    }
    Path root = Path.of("").toAbsolutePath();
    while (root != null && !Files.exists(root.resolve("Cargo.toml"))) {
      root = root.getParent();
    }
    if (root == null) {
      throw new IOException("Found no sessiond. Set SESSIOND_TEST_PROGRAM.");
    }
    String target = System.getenv().getOrDefault("CARGO_TARGET_DIR", "target");
    Path newest = null;
    for (String kind : List.of("release", "debug")) {
      Path built = root.resolve(target).resolve(kind).resolve("sessiond");
      if (Files.isExecutable(built)
          && (newest == null
              || Files.getLastModifiedTime(built).compareTo(Files.getLastModifiedTime(newest))
                  > 0)) {
        newest = built;
      }
    }
    if (newest == null) {
      throw new IOException("Found no sessiond. Run cargo build, or set SESSIOND_TEST_PROGRAM.");
    }
    return newest;
  }
}
