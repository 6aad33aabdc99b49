package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;

import com.google.adk.events.Event;
import com.google.adk.sessions.BaseSessionService;
import com.google.adk.sessions.InMemorySessionService;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The loop of the README that copies the sessions of another service. */
final class CopyTest extends ServerTest {

  private static void copy(
      BaseSessionService from, SessiondSessionService to, String app, String user) {
    for (String id : from.listSessions(app, user).blockingGet().sessionIds()) {
      Session old = from.getSession(app, user, id, Optional.empty()).blockingGet();
      Session copy =
          to.getSession(app, user, id, Optional.empty())
              .switchIfEmpty(to.createSession(app, user, Map.of(), id))
              .blockingGet();
      old.events().forEach(event -> to.appendEvent(copy, event).blockingGet());
      Map<String, Object> state = new HashMap<>(old.state());
      state.keySet().removeIf(key -> key.startsWith("temp:")); // belongs to one invocation
      to.updateState(copy, Delta.of(state)).blockingGet();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void copiesEventsAndStateOnce(String store) throws Exception {
    BaseSessionService from = new InMemorySessionService();
    for (String id : List.of("s1", "s2")) {
      from.createSession(APP, USER, Map.of("set", id), id).blockingGet();
      new Conversation(from).turn(id, "hello");
    }
    SessiondSessionService service = connect(store);
    for (int run = 0; run < 2; run++) {
      copy(from, service, APP, USER);
      for (String id : List.of("s1", "s2")) {
        Session old = from.getSession(APP, USER, id, Optional.empty()).blockingGet();
        List<Event> read = get(service, id).events();
        // The change of state is an event of its own.
        assertThat(ids(read).subList(0, old.events().size())).isEqualTo(ids(old.events()));
        assertThat(read.stream().filter(event -> event.author().equals("system")).toList())
            .hasSize(run + 1);
        Map<String, Object> state = new HashMap<>(old.state());
        state.keySet().removeIf(Messages::isTemp);
        assertThat(get(service, id).state()).isEqualTo(new State(state));
      }
    }
  }

  private static List<String> ids(List<Event> events) {
    return events.stream().map(event -> event.id() + "@" + event.timestamp()).toList();
  }
}
