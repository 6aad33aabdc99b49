package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.schedulers.Schedulers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A server that is killed and restarted: nothing is lost, nothing is doubled. */
final class CrashTest extends ServerTest {

  private static final RetryPolicy PATIENT =
      new RetryPolicy(10_000, Duration.ofMillis(10), Duration.ofMillis(100));

  @Test
  void aCrashBetweenTwoTurnsIsNotNoticed() throws Exception {
    TestServer server = serve(SQLITE);
    SessiondSessionService service = closing(server.service().retry(PATIENT).build());
    create(service, Map.of());
    Session session = service.createSession(APP, USER, Map.of("kept", 1), "s1").blockingGet();
    Conversation conversation = new Conversation(service);
    conversation.turn(session.id(), "first");
    server.kill();
    server.startAgain();
    conversation.turn(session.id(), "second");
    Session read = get(service, session.id());
    assertThat(read.events()).hasSize(12);
    assertThat(read.state()).containsEntry("last_answer", "booked 1");
    assertThat(read.state()).containsEntry("kept", 1);
    assertThat(read.events().stream().map(Event::id).distinct().count()).isEqualTo(12);
  }

  @Test
  void crashesInTheMiddleOfAppendsLoseAndDoubleNothing() throws Exception {
    TestServer server = serve(SQLITE);
    SessiondSessionService service = closing(server.service().retry(PATIENT).build());
    int writers = 4;
    int each = 40;
    Session session = create(service, Map.of());
    CountDownLatch some = new CountDownLatch(writers * each / 4);
    CompletableFuture<Throwable> done = new CompletableFuture<>();
    Flowable.range(0, writers)
        .flatMapCompletable(
            writer ->
                Flowable.defer(
                        () -> {
                          Session own = get(service, session.id());
                          return Flowable.range(0, each)
                              .concatMapSingle(
                                  i ->
                                      service.appendEvent(
                                          own,
                                          message(writer + "/" + i),
                                          List.of(new Operation.Increment("user:n", 1))))
                              .doOnNext(event -> some.countDown());
                        })
                    .subscribeOn(Schedulers.io())
                    .ignoreElements())
        .subscribe(() -> done.complete(null), done::complete);
    for (int crash = 0; crash < 3; crash++) {
      if (crash == 0) {
        assertThat(some.await(120, TimeUnit.SECONDS)).isTrue();
      }
      server.kill();
      server.startAgain();
    }
    assertThat(done.get(240, TimeUnit.SECONDS)).isNull();
    Session read = get(service, session.id());
    List<String> expected = new ArrayList<>();
    for (int writer = 0; writer < writers; writer++) {
      for (int i = 0; i < each; i++) {
        expected.add(writer + "/" + i);
      }
    }
    assertThat(texts(read)).containsExactlyElementsIn(expected);
    assertThat(read.state()).containsEntry("user:n", writers * each);
  }
}
