package dev.sessiond.examples;

import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.sessions.BaseSessionService;
import com.google.adk.sessions.GetSessionConfig;
import com.google.adk.sessions.InMemorySessionService;
import com.google.adk.sessions.Session;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import dev.sessiond.adk.SessiondSessionService;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Measures {@code appendEvent} (1 KiB of text, three state changes) and {@code getSession} (the
 * newest 20 of 1,000 events): {@code Benchmark ADDRESS}. Every caller has its own session and user.
 */
public final class Benchmark {

  private static final int EVENTS = 1_000;
  private static final long SECONDS = 5;
  private static final String APP = "benchmark";

  private Benchmark() {}

  /** Prints a line for every measurement. */
  public static void main(String[] args) throws Exception {
    try (SessiondSessionService sessiond = new SessiondSessionService(args[0])) {
      for (int callers : new int[] {1, 16}) {
        for (BaseSessionService service : List.of(sessiond, new InMemorySessionService())) {
          measure(service, callers);
        }
      }
    }
  }

  private static void measure(BaseSessionService service, int callers) throws Exception {
    List<Session> sessions = new ArrayList<>();
    String run = Long.toString(System.nanoTime());
    for (int i = 0; i < callers; i++) {
      Session session = service.createSession(APP, "user-" + run + i).blockingGet();
      for (int n = 0; n < EVENTS; n++) {
        service.appendEvent(session, event(n)).blockingGet();
      }
      sessions.add(session);
    }
    Optional<GetSessionConfig> newest =
        Optional.of(GetSessionConfig.builder().numRecentEvents(20).build());
    String name = service.getClass().getSimpleName();
    for (boolean warm : new boolean[] {false, true}) {
      report(
          warm,
          name + " get_session",
          sessions,
          (session, n) ->
              service.getSession(APP, session.userId(), session.id(), newest).blockingGet());
      report(
          warm,
          name + " append_event",
          sessions,
          (session, n) -> service.appendEvent(session, event(n)).blockingGet());
    }
  }

  private static Event event(int n) {
    return Event.builder()
        .id(Event.generateEventId())
        .invocationId("i")
        .author("user")
        .content(Content.fromParts(Part.fromText("x".repeat(1024))))
        .actions(
            EventActions.builder()
                .stateDelta(Map.of("n", n, "user:n", n, "text", "value " + n))
                .build())
        .build();
  }

  private interface Call {
    Object call(Session session, int n);
  }

  private static void report(boolean print, String name, List<Session> sessions, Call call)
      throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(sessions.size());
    List<Callable<long[]>> callers = new ArrayList<>();
    for (Session session : sessions) {
      callers.add(() -> times(session, call));
    }
    long begin = System.nanoTime();
    List<Long> all = new ArrayList<>();
    for (Future<long[]> done : threads.invokeAll(callers)) {
      Arrays.stream(done.get()).forEach(all::add);
    }
    double seconds = (System.nanoTime() - begin) / 1e9;
    threads.shutdown();
    all.sort(null);
    if (print) {
      System.out.printf(
          "%-40s %2d callers: %7.0f/s, p50 %.2f ms, p99 %.2f ms%n",
          name,
          sessions.size(),
          all.size() / seconds,
          all.get(all.size() / 2) / 1e6,
          all.get(all.size() * 99 / 100) / 1e6);
    }
  }

  private static long[] times(Session session, Call call) {
    List<Long> times = new ArrayList<>();
    long end = System.nanoTime() + SECONDS * 1_000_000_000L;
    for (int n = 0; System.nanoTime() < end; n++) {
      long begin = System.nanoTime();
      call.call(session, n);
      times.add(System.nanoTime() - begin);
    }
    return times.stream().mapToLong(Long::longValue).toArray();
  }
}
