package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static com.google.common.truth.Truth.assertWithMessage;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.DeleteSessionRequest;
import dev.sessiond.v1.GetSessionRequest;
import dev.sessiond.v1.Precondition;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Writes from a session object mean its session, and no other that has the same id by now. */
final class LifeTest extends ServerTest {

  private final Recorder recorder = new Recorder(message -> message);

  private SessiondSessionService connect(TestServer server, Stale stale) {
    return closing(
        server
            .service()
            .stale(stale)
            .configureChannel(channel -> channel.intercept(recorder))
            .build());
  }

  /** Every write that takes a session object. */
  private static Map<String, Executable> writes(SessiondSessionService service, Session session) {
    Map<String, Executable> writes = new LinkedHashMap<>();
    writes.put(
        "append", () -> service.appendEvent(session, event("x", Map.of("k", 1))).blockingGet());
    writes.put("empty append", () -> service.appendEvent(session, message("x")).blockingGet());
    writes.put("change", () -> service.change(session, Delta.of(Map.of("app:k", 1))).blockingGet());
    writes.put("increment", () -> service.increment(session, "n", 1).blockingGet());
    writes.put("remove", () -> service.remove(session, "cart").blockingAwait());
    writes.put(
        "updateState", () -> service.updateState(session, Delta.of(Map.of("k", 1))).blockingGet());
    writes.put("rewind", () -> service.rewindSession(session, 0).blockingGet());
    writes.put("fork", () -> service.forkSession(session, 0L, null).blockingGet());
    writes.put("expire", () -> service.expireSession(session, Duration.ofHours(1)).blockingGet());
    writes.put(
        "expire at",
        () -> service.expireSessionAt(session, Instant.now().plusSeconds(9999)).blockingAwait());
    return writes;
  }

  /** The uid of the precondition of the last request that can have one. */
  private String lastUid() {
    String uid = "none";
    for (Message request : recorder.requests(Message.class)) {
      FieldDescriptor field = request.getDescriptorForType().findFieldByName("precondition");
      if (field != null) {
        uid = ((Precondition) request.getField(field)).getUid();
      }
    }
    return uid;
  }

  @ParameterizedTest
  @EnumSource(Stale.class)
  void everyWriteOfAnObjectSendsItsUid(Stale stale) throws Exception {
    SessiondSessionService service = connect(serve(MEMORY), stale);
    Session created = create(service, Map.of());
    String uid = service.uid(created);
    assertThat(uid).isNotEmpty();
    Session listed = service.listSessions(APP, USER).blockingGet().sessions().get(0);
    for (Session session : List.of(created, get(service, created.id()), listed)) {
      service.refresh(session).blockingAwait();
      assertThat(service.uid(session)).isEqualTo(uid);
      for (Map.Entry<String, Executable> write : writes(service, session).entrySet()) {
        try {
          write.getValue().execute();
        } catch (SessiondStaleException e) {
          // After another write of this loop: the uid was sent all the same.
        } catch (Throwable e) {
          throw new AssertionError(write.getKey(), e);
        }
        assertWithMessage(write.getKey()).that(lastUid()).isEqualTo(uid);
      }
    }
    service.deleteSession(listed).blockingAwait();
    assertThat(lastUid()).isEqualTo(uid);
    assertThat(recorder.requests(DeleteSessionRequest.class)).hasSize(1);
    assertThat(get(service, created.id())).isNull();
  }

  @ParameterizedTest
  @EnumSource(Stale.class)
  void aSessionThatWasCreatedAnewIsAStaleError(Stale stale) throws Exception {
    for (String store : List.of(MEMORY, SQLITE)) {
      SessiondSessionService service = connect(serve(store), stale);
      Session late = service.createSession(APP, USER, Map.of("cart", 1), "s").blockingGet();
      Event stored = message("old");
      service.appendEvent(late, stored).blockingGet();
      service.deleteSession(APP, USER, "s").blockingAwait();
      Session fresh = service.createSession(APP, USER, Map.of("cart", 1), "s").blockingGet();
      // The numbers agree again.
      service.appendEvent(fresh, message("new")).blockingGet();
      Map<String, Executable> writes = writes(service, late);
      writes.put("replay", () -> service.appendEvent(late, stored).blockingGet());
      writes.put("refresh", () -> service.refresh(late).blockingAwait());
      for (Map.Entry<String, Executable> write : writes.entrySet()) {
        SessiondStaleException failure =
            assertThrows(SessiondStaleException.class, write.getValue(), write.getKey());
        assertThat(failure.call().reason()).isEqualTo("SESSION_REPLACED");
        assertThat(failure.call().attempts()).isEqualTo(1);
      }
      assertThat(texts(late)).containsExactly("old");
      assertThat(late.state()).containsEntry("cart", 1);
      // A repeated deletion deletes nothing else.
      service.deleteSession(late).blockingAwait();
      Session read = get(service, "s");
      assertThat(texts(read)).containsExactly("new");
      assertThat(read.state()).containsExactly("cart", 1);
      assertThat(service.listSessions(APP, USER).blockingGet().sessionIds()).containsExactly("s");
    }
  }

  @ParameterizedTest
  @EnumSource(Stale.class)
  void aForeignObjectBelongsToTheSessionOfItsFirstAppend(Stale stale) throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, stale);
    Session created = create(service, Map.of());
    Session foreign = Session.builder(created.id()).appName(APP).userId(USER).build();
    service.appendEvent(foreign, message("x")).blockingGet();
    AppendEventRequest first = recorder.requests(AppendEventRequest.class).get(0);
    // The other modes read the session first, and mean the one that they have read.
    assertThat(first.getPrecondition().getUid())
        .isEqualTo(stale == Stale.MERGE ? "" : service.uid(created));
    service.appendEvent(foreign, message("y")).blockingGet();
    assertThat(lastUid()).isEqualTo(service.uid(created));
  }

  // Ids are sent as they are.

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void anIdThatAListReturnedAddressesItsSession(String store) throws Exception {
    SessiondSessionService service = connect(serve(store), Stale.MERGE);
    List<String> ids = List.of("order-42", "order-42\n", " order-42", "order-42\u00a0", "ORDER-42");
    for (String id : ids) {
      Session created = service.createSession(APP, USER, Map.of("id", id), id).blockingGet();
      assertThat(created.id()).isEqualTo(id);
    }
    assertThat(service.listSessions(APP, USER).blockingGet().sessionIds())
        .containsExactlyElementsIn(ids);
    for (String id : ids) {
      Session read = get(service, id);
      assertThat(read.state()).containsEntry("id", id);
      service.appendEvent(read, message(id)).blockingGet();
      service.refresh(read).blockingAwait();
      assertThat(texts(read)).containsExactly(id);
      assertThat(service.listEvents(APP, USER, id).blockingGet().events()).hasSize(1);
      Scope scope = Scope.session(read.sessionKey());
      assertThat(service.getState(scope).blockingGet()).containsEntry("id", id);
      assertThat(service.getSessionAsOf(read.sessionKey(), 1).blockingGet().id()).isEqualTo(id);
      assertThat(service.storedEvents(read.sessionKey(), 0, true).blockingFirst().event().id())
          .isEqualTo(read.events().get(0).id());
      service.expireSession(read.sessionKey(), Duration.ofHours(1)).blockingGet();
      assertThat(service.rewindSession(read.sessionKey(), 0).blockingGet().id()).isEqualTo(id);
      assertThat(service.forkSession(read.sessionKey(), 0L, id + "f ").blockingGet().id())
          .isEqualTo(id + "f ");
    }
    service.deleteSession(APP, USER, "order-42\n").blockingAwait();
    assertThat(get(service, "order-42\n")).isNull();
    assertThat(get(service, "order-42")).isNotNull();
  }

  @Test
  void halfASurrogatePairInAnIdOrKeyIsRefusedBeforeItIsSent() throws Exception {
    String half = "x\ud83d";
    SessiondSessionService service = connect(serve(MEMORY), Stale.MERGE);
    Session session = create(service, Map.of());
    Session unnamed = Session.builder(half).appName(APP).userId(USER).build();
    int sent = recorder.requests(Message.class).size();
    Event noId = message("x");
    noId.setId(half);
    List<Executable> calls =
        List.of(
            () -> service.createSession(half, USER).blockingGet(),
            () -> service.createSession(APP, half).blockingGet(),
            () -> service.createSession(APP, USER, Map.of(), half).blockingGet(),
            () -> service.createSession(APP, USER, Map.of(half, 1), "s").blockingGet(),
            () -> service.getSession(APP, USER, half, Optional.empty()).blockingGet(),
            () -> service.listSessions(APP, half).blockingGet(),
            () -> service.listSessions(half, USER).blockingGet(),
            () -> service.deleteSession(APP, USER, half).blockingAwait(),
            () -> service.deleteSession(unnamed).blockingAwait(),
            () -> service.listEvents(APP, USER, half).blockingGet(),
            () ->
                service
                    .getEvents(session.sessionKey(), List.of(new EventRef.Id(half)))
                    .blockingGet(),
            () -> service.appendEvent(unnamed, message("x")).blockingGet(),
            () -> service.appendEvent(session, noId).blockingGet(),
            () ->
                service
                    .appendEvent(session, Event.builder().id("i").author(half).build())
                    .blockingGet(),
            () ->
                service
                    .appendEvent(session, Event.builder().id("i").invocationId(half).build())
                    .blockingGet(),
            () ->
                service
                    .appendEvent(session, Event.builder().id("i").branch(half).build())
                    .blockingGet(),
            () -> service.appendEvent(session, event("x", Map.of(half, 1))).blockingGet(),
            () -> service.increment(session, half, 1).blockingGet(),
            () -> service.remove(session, half).blockingAwait(),
            () -> service.setIfAbsent(session, "app:" + half, 1).blockingGet(),
            () ->
                service
                    .updateState(Scope.app(APP), Delta.of(Map.of("app:" + half, 1)))
                    .blockingGet(),
            () ->
                service
                    .updateState(Scope.app(APP), Delta.of(new Operation.Remove("app:" + half)))
                    .blockingGet(),
            () -> Scope.user(APP, half),
            () -> service.getState(Scope.app(APP), half).blockingGet(),
            () -> service.endInvocation(session.sessionKey(), half).blockingAwait(),
            () -> service.forkSession(session, null, half).blockingGet(),
            () -> service.rewindSession(unnamed.sessionKey(), 0).blockingGet(),
            () -> service.refresh(unnamed).blockingAwait());
    for (int i = 0; i < calls.size(); i++) {
      IllegalArgumentException failure =
          assertThrows(IllegalArgumentException.class, calls.get(i), "call " + i);
      assertThat(failure).hasMessageThat().contains("half a surrogate pair");
    }
    assertThat(recorder.requests(Message.class)).hasSize(sent);
    assertThat(recorder.requests(GetSessionRequest.class)).isEmpty();
    assertThat(session.events()).isEmpty();
  }
}
