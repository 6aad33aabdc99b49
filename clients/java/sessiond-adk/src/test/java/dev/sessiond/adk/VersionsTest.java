package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.AppendEventResponse;
import dev.sessiond.v1.CreateSessionRequest;
import dev.sessiond.v1.GetSessionRequest;
import dev.sessiond.v1.GetStateRequest;
import dev.sessiond.v1.KeyCheck;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Versions of keys: where they come from, and which value they belong to. */
final class VersionsTest extends ServerTest {

  private static final List<String> KEYS = List.of("k", "app:k", "user:k");

  private SessiondSessionService connect(TestServer server, Stale stale, Recorder recorder) {
    return closing(
        server
            .service()
            .stale(stale)
            .configureChannel(channel -> channel.intercept(recorder))
            .build());
  }

  private SessiondSessionService connect(TestServer server, UnaryOperator<Message> edit) {
    return connect(server, Stale.CONFLICT, new Recorder(edit));
  }

  /** Makes the server an older one, which does not know versions in sessions. */
  private static Message withoutVersions(Message message) {
    FieldDescriptor asked = message.getDescriptorForType().findFieldByName("include_versions");
    return asked == null ? message : message.toBuilder().clearField(asked).build();
  }

  /** Removes the state from responses to appends, as the server does if it is too large. */
  private static Message withoutState(Message message) {
    if (!(message instanceof AppendEventResponse response)) {
      return message;
    }
    AppendEventResponse.Builder stateless = response.toBuilder();
    stateless.getSessionBuilder().clearStateForm().clearVersions();
    return stateless.build();
  }

  private static Map<String, Object> all(Object value) {
    Map<String, Object> values = new ConcurrentHashMap<>();
    KEYS.forEach(key -> values.put(key, value));
    return values;
  }

  private static void write(
      SessiondSessionService service, Session session, Map<String, Object> delta) {
    service.appendEvent(session, event("change", new ConcurrentHashMap<>(delta))).blockingGet();
  }

  @ParameterizedTest
  @EnumSource(Stale.class)
  void areAskedForWhereAppendsCheckThemWithoutACallOfTheirOwn(Stale stale) throws Exception {
    Recorder recorder = new Recorder(message -> message);
    SessiondSessionService service = connect(serve(MEMORY), stale, recorder);
    Session created = create(service, all(1));
    write(service, created, all(2));
    write(service, created, all(3));
    write(service, get(service, created.id()), all(4));
    service.refresh(created).blockingAwait();
    write(service, created, all(5));

    assertThat(recorder.requests(GetStateRequest.class)).isEmpty();
    List<CreateSessionRequest> creations = recorder.requests(CreateSessionRequest.class);
    List<GetSessionRequest> reads = recorder.requests(GetSessionRequest.class);
    List<AppendEventRequest> appends = recorder.requests(AppendEventRequest.class);
    assertThat(creations).hasSize(1);
    assertThat(reads).hasSize(2);
    assertThat(appends).hasSize(4);
    boolean wanted = stale == Stale.CONFLICT;
    creations.forEach(one -> assertThat(one.getIncludeVersions()).isEqualTo(wanted));
    reads.forEach(one -> assertThat(one.getIncludeVersions()).isEqualTo(wanted));
    appends.forEach(one -> assertThat(one.getIncludeVersions()).isEqualTo(wanted));
    List<KeyCheck> checks =
        appends.stream().flatMap(one -> one.getPrecondition().getKeysList().stream()).toList();
    assertThat(checks).hasSize(wanted ? 12 : 0);
    checks.forEach(check -> assertThat(check.hasVersion()).isTrue());
  }

  /** Objects of one session, read in several ways, that show the value "old". */
  private static List<Session> objects(
      SessiondSessionService service, SessiondSessionService others) {
    Session created = create(service, all("older"));
    write(others, get(others, created.id()), all("old"));
    Session refreshed = get(service, created.id());
    service.refresh(refreshed).blockingAwait();
    SessionKey key = new SessionKey(APP, USER, created.id());
    Session past = service.getSessionAsOf(key, 1).blockingGet();
    return List.of(get(service, created.id()), refreshed, past);
  }

  @ParameterizedTest
  @CsvSource({"memory:,true", "memory:,false", "sqlite:test.db,true", "sqlite:test.db,false"})
  void aValueThatIsChangedAndChangedBackConflicts(String store, boolean current) throws Exception {
    TestServer server = serve(store);
    UnaryOperator<Message> edit = current ? message -> message : VersionsTest::withoutVersions;
    SessiondSessionService service = connect(server, edit);
    SessiondSessionService others = connect(server);
    List<Session> objects = objects(service, others);
    changesBack(service, others, objects.get(0).id(), objects, current);
    // Values of the object's own writes.
    Session created = create(service, all("old"));
    changesBack(service, others, created.id(), List.of(created), current);
    Session appended = create(service, Map.of());
    service.refresh(appended).blockingAwait();
    write(service, appended, all("old"));
    changesBack(service, others, appended.id(), List.of(appended), current);
    // Values of others that came with an append.
    Session received = create(service, Map.of());
    write(others, get(others, received.id()), all("old"));
    service.appendEvent(received, message("x")).blockingGet();
    changesBack(service, others, received.id(), List.of(received), current);
  }

  private static void changesBack(
      SessiondSessionService service,
      SessiondSessionService others,
      String id,
      List<Session> objects,
      boolean conflicts) {
    Session other = get(others, id);
    write(others, other, all("theirs"));
    for (Session mine : objects) {
      SessiondStaleException failure =
          assertThrows(SessiondStaleException.class, () -> write(service, mine, all("mine")));
      assertThat(failure.keys()).containsExactlyElementsIn(KEYS);
    }
    for (Session mine : objects) {
      write(others, other, all("old"));
      for (String key : KEYS) {
        if (conflicts) {
          assertThrows(
              SessiondStaleException.class, () -> write(service, mine, Map.of(key, "mine")));
        } else {
          write(service, mine, Map.of(key, "mine"));
        }
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    // others write, the agent has set, the response has state, shown, conflict
    "theirs,,true,theirs,false",
    "theirs old,,true,old,false",
    "theirs,,false,old,true",
    "theirs old,,false,old,true",
    "theirs,mine,true,mine,true",
    "theirs old,mine,true,mine,true",
    ",mine,true,mine,false",
  })
  void areThoseOfTheValuesThatTheObjectShows(
      String theirs, String local, boolean state, String shown, boolean conflicts)
      throws Exception {
    TestServer server = serve(MEMORY);
    UnaryOperator<Message> edit = state ? message -> message : VersionsTest::withoutState;
    SessiondSessionService service = connect(server, edit);
    SessiondSessionService others = connect(server);
    for (String key : KEYS) {
      Session other = create(others, Map.of(key, "old"));
      Session mine = get(service, other.id());
      if (local != null) {
        mine.state().put(key, local);
      }
      for (String value : theirs == null ? new String[0] : theirs.split(" ")) {
        write(others, other, Map.of(key, value));
      }
      write(service, mine, Map.of("another", 1));
      assertThat(mine.state()).containsEntry(key, shown);
      if (conflicts) {
        assertThrows(SessiondStaleException.class, () -> write(service, mine, Map.of(key, "mine")));
      } else {
        write(service, mine, Map.of(key, "mine"));
      }
    }
  }

  @Test
  void anOperationOnAnUncommittedValueKeepsItsVersion() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, message -> message);
    SessiondSessionService others = connect(server);
    Session other = create(others, Map.of("app:n", 1));
    Session mine = get(service, other.id());
    mine.state().put("app:n", 10);
    write(others, other, Map.of("app:n", 5));
    Operation increment = new Operation.Increment("app:n", 1);
    service.appendEvent(mine, message("x"), List.of(increment)).blockingGet();
    assertThat(mine.state()).containsEntry("app:n", 10);
    assertThrows(SessiondStaleException.class, () -> write(service, mine, Map.of("app:n", 10)));
  }

  @Test
  void valuesAreComparedAfterAnOwnWriteWithoutStateInItsResponse() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, VersionsTest::withoutState);
    SessiondSessionService others = connect(server);
    Session mine = create(service, all(1));
    write(service, mine, all(2));
    write(service, mine, all(3));
    write(others, get(others, mine.id()), all("theirs"));
    for (String key : KEYS) {
      assertThrows(SessiondStaleException.class, () -> write(service, mine, Map.of(key, 4)));
    }
  }
}
