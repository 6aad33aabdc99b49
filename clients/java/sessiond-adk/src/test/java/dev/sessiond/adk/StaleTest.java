package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static com.google.common.truth.Truth.assertWithMessage;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The three answers to an append from an outdated session object. */
final class StaleTest extends ServerTest {

  private SessiondSessionService connect(TestServer server, Stale stale) {
    return closing(server.service().stale(stale).build());
  }

  private static void append(SessiondSessionService service, Session session, Object... delta) {
    service.appendEvent(session, changing(delta)).blockingGet();
  }

  private static Event changing(Object... delta) {
    Map<String, Object> changes = new ConcurrentHashMap<>();
    for (int i = 0; i < delta.length; i += 2) {
      changes.put((String) delta[i], delta[i + 1]);
    }
    return event("change", changes);
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void errorRefusesEveryOutdatedObject(String store) throws Exception {
    TestServer server = serve(store);
    SessiondSessionService service = connect(server, Stale.ERROR);
    Session first = create(service, Map.of());
    Session second = get(service, first.id());
    Event applied = changing("a", 1);
    service.appendEvent(first, applied).blockingGet();

    SessiondStaleException failure =
        assertThrows(SessiondStaleException.class, () -> append(service, second, "b", 2));

    assertThat(failure).hasMessageThat().contains("modified in storage");
    assertThat(failure.call().metadata()).containsAtLeast("expected", "0", "actual", "1");
    assertThat(second.events()).isEmpty();
    assertThat(get(service, first.id()).state()).containsExactly("a", 1);
    // Its own events keep an object current; a repeated event is no conflict.
    append(service, first, "c", 3);
    service.appendEvent(second, applied).blockingGet();
    assertThrows(SessiondStaleException.class, () -> append(service, second, "b", 2));
    service.refresh(second).blockingAwait();
    append(service, second, "b", 2);
    assertThat(get(service, first.id()).events()).hasSize(3);
  }

  @Test
  void errorKnowsObjectsOfOthersByTheirNewestEvent() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.ERROR);
    Session session = create(service, Map.of());
    Session foreign = Session.builder(session.id()).appName(APP).userId(USER).build();
    append(service, foreign, "a", 1);
    append(service, foreign, "b", 2);
    Session outdated = Session.builder(session.id()).appName(APP).userId(USER).build();
    assertThrows(SessiondStaleException.class, () -> append(service, outdated, "c", 3));
  }

  /** The change of a case in clients/cases/conflict.json, but for its operations. */
  private static Event change(JsonNode change) {
    Map<String, Object> delta = new ConcurrentHashMap<>(Json.values(members(change.path("set"))));
    change.path("remove").forEach(key -> delta.put(key.asText(), State.REMOVED));
    return event("change", delta);
  }

  private static Map<String, JsonNode> members(JsonNode object) {
    Map<String, JsonNode> members = new LinkedHashMap<>();
    object.properties().forEach(member -> members.put(member.getKey(), member.getValue()));
    return members;
  }

  @ParameterizedTest
  @EnumSource(Stale.class)
  void onlyKeysThatOthersHaveChangedConflict(Stale stale) throws Exception {
    JsonNode table = Json.parse(Files.readString(Path.of("../../cases/conflict.json")));
    for (String store : List.of(MEMORY, SQLITE)) {
      TestServer server = serve(store);
      SessiondSessionService service = connect(server, stale);
      for (JsonNode one : table.get("cases")) {
        runCase(service, stale, Json.values(members(table.get("state"))), one);
      }
    }
  }

  private static void runCase(
      SessiondSessionService service, Stale stale, Map<String, Object> state, JsonNode one) {
    // The state that sessions share is as the case before has left it.
    Session first = create(service, state);
    Session second = get(service, first.id());
    boolean isOvertaken = !one.get("others").isEmpty();
    if (isOvertaken) {
      service.appendEvent(first, change(one.get("others"))).blockingGet();
    }
    List<Operation> operations = new ArrayList<>();
    one.get("own")
        .path("increment")
        .forEach(key -> operations.add(new Operation.Increment(key.asText(), 1)));
    Event event = change(one.get("own"));
    List<String> keys = new ArrayList<>();
    one.get("keys").forEach(key -> keys.add(key.asText()));
    String name = stale + ": " + one.get("name").asText();
    boolean refused =
        stale == Stale.ERROR ? isOvertaken : stale == Stale.CONFLICT && !keys.isEmpty();
    if (!refused) {
      service.appendEvent(second, event, operations).blockingGet();
      append(service, second, "a", 5, "new", 5, "user:u", 5, "app:x", 5);
      return;
    }
    Map<String, Object> before = Map.copyOf(second.state());
    SessiondStaleException failure =
        assertThrows(
            SessiondStaleException.class,
            () -> service.appendEvent(second, event, operations).blockingGet(),
            name);
    if (stale == Stale.CONFLICT) {
      assertWithMessage(name).that(failure.keys()).containsExactlyElementsIn(keys);
      assertThat(second.events()).isEmpty();
      assertThat(second.state()).containsExactlyEntriesIn(before);
      // An append of another key brings the object up to date.
      append(service, second, "fresh", 1);
      service.appendEvent(second, event, operations).blockingGet();
    }
  }

  @Test
  void conflictKeepsWhatAnUncommittedValueWasBasedOn() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session first = create(service, Map.of("a", 1, "b", 1));
    Session second = get(service, first.id());
    append(service, first, "a", 2);
    // A tool has written this, from a value that is not the newest.
    second.state().put("a", 10);
    append(service, second, "b", 2);
    assertThat(second.state()).containsEntry("a", 10);
    assertThrows(SessiondStaleException.class, () -> append(service, second, "a", 10));
  }

  @Test
  void conflictAcceptsARepeatedEvent() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session first = create(service, Map.of("a", 1));
    Event event = changing("a", 2);
    service.appendEvent(first, event).blockingGet();
    append(service, first, "a", 3);
    service.appendEvent(first, event).blockingGet();
    assertThat(get(service, first.id()).events()).hasSize(2);
    assertThat(first.events()).hasSize(2);
    assertThat(first.state()).containsEntry("a", 3);
  }

  @Test
  void conflictChecksTheWholeSequenceOfAnUnknownObject() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service = connect(server, Stale.CONFLICT);
    Session session = create(service, Map.of("a", 1));
    append(service, session, "b", 1);
    Session unknown = Session.builder(session.id()).appName(APP).userId(USER).build();
    assertThrows(SessiondStaleException.class, () -> append(service, unknown, "c", 1));
  }

  @Test
  void anAddressChoosesTheAnswer() throws Exception {
    TestServer server = serve(MEMORY);
    SessiondSessionService service =
        closing(
            new SessiondSessionService(
                "sessiond://" + server.address() + "?stale=error&timeout=60"));
    Session first = create(service, Map.of());
    Session second = get(service, first.id());
    append(service, first, "a", 1);
    assertThrows(SessiondStaleException.class, () -> append(service, second, "b", 1));
  }
}
