package dev.sessiond.kit;

import dev.sessiond.adk.SessiondSessionService;
import dev.sessiond.adk.TestServer;
import io.reactivex.rxjava3.core.Maybe;
import io.reactivex.rxjava3.core.Single;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;

/**
 * The services of the running test. ADK's tests use the same ids again and close no service, so
 * each has a server of its own, and both end with the test.
 */
public final class Services implements TestExecutionListener {

  private static final Set<String> UNAWAITED = unawaited();

  private static final Deque<AutoCloseable> OPENED = new ArrayDeque<>();

  private static volatile boolean waits;

  /** Starts a server, and connects to it. */
  public static synchronized SessiondSessionService start() {
    try {
      Path directory = Files.createTempDirectory("kit");
      directory.toFile().deleteOnExit();
      directory.resolve("server.log").toFile().deleteOnExit();
      TestServer server = TestServer.start(directory, "memory:");
      OPENED.push(server);
      SessiondSessionService service = server.service().build();
      OPENED.push(service);
      return service;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A result as the running test needs it: emitted on another thread, or awaited on this one. */
  public static <T> Single<T> emit(Single<T> result) {
    return waits ? Single.fromCallable(result::blockingGet) : result;
  }

  /** As for a {@link Single}. */
  public static <T> Maybe<T> emit(Maybe<T> result) {
    return waits ? Maybe.fromCallable(result::blockingGet) : result;
  }

  @Override
  public void executionStarted(TestIdentifier test) {
    waits =
        test.getSource()
            .map(source -> source instanceof MethodSource method ? name(method) : "")
            .filter(UNAWAITED::contains)
            .isPresent();
  }

  @Override
  public void executionFinished(TestIdentifier test, TestExecutionResult result) {
    closeAll();
  }

  private static String name(MethodSource test) {
    return test.getClassName() + "#" + test.getMethodName();
  }

  private static synchronized void closeAll() {
    while (!OPENED.isEmpty()) {
      try {
        OPENED.pop().close();
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }
  }

  private static Set<String> unawaited() {
    try (InputStream stream = Services.class.getResourceAsStream("/unawaited")) {
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8)
          .lines()
          .filter(line -> !line.isBlank() && !line.startsWith("#"))
          .collect(Collectors.toSet());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
