package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Events of a session by their ids and sequences. */
final class GetEventsTest extends ServerTest {

  private static final EventRef NO_ID = new EventRef.Id("none");

  private static SessionKey append(SessiondSessionService service, int count, String text) {
    Session session = create(service, Map.of());
    for (int i = 1; i <= count; i++) {
      Event event = message(text);
      event.setId("e" + i);
      service.appendEvent(session, event).blockingGet();
    }
    return session.sessionKey();
  }

  private static EventRef ref(Object named) {
    return named instanceof String id
        ? new EventRef.Id(id)
        : new EventRef.Sequence((Integer) named);
  }

  private static List<EventRef> refs(Object... named) {
    return Stream.of(named).map(GetEventsTest::ref).toList();
  }

  private static List<Long> sequences(FoundEvents found) {
    return found.found().stream().map(StoredEvent::sequence).toList();
  }

  @ParameterizedTest
  @ValueSource(strings = {MEMORY, SQLITE})
  void eventsComeInTheOrderOfTheirRefsAlsoRewoundOnes(String store) throws Exception {
    SessiondSessionService service = connect(store);
    SessionKey key = append(service, 4, "x");
    service.rewindSession(key, 2).blockingGet();
    FoundEvents found =
        service.getEvents(key, refs("e4", 9, 2, "none", "e1", 2, 5, 3, "e2", 9)).blockingGet();
    assertThat(sequences(found)).containsExactly(4L, 2L, 1L, 2L, 5L, 3L, 2L).inOrder();
    assertThat(found.missing()).isEqualTo(refs(9, "none", 9));
    Map<Long, StoredEvent> listed =
        service.storedEvents(key, 0, true).toList().blockingGet().stream()
            .collect(Collectors.toMap(StoredEvent::sequence, stored -> stored));
    assertThat(found.found()).isEqualTo(sequences(found).stream().map(listed::get).toList());
    assertThat(found.found().get(0).rewound()).isTrue();
    assertThat(found.found().get(1).rewound()).isFalse();
  }

  @Test
  void refsMayBeMoreThanOneRequestMayNameOrNone() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    SessionKey key = append(service, 1, "x");
    List<EventRef> refs =
        Stream.of(Collections.nCopies(1200, NO_ID), Collections.nCopies(1200, ref(1)))
            .flatMap(List::stream)
            .toList();
    FoundEvents found = service.getEvents(key, refs).blockingGet();
    assertThat(sequences(found)).isEqualTo(Collections.nCopies(1200, 1L));
    assertThat(found.missing()).isEqualTo(Collections.nCopies(1200, NO_ID));
    assertThat(service.getEvents(key, List.of()).blockingGet())
        .isEqualTo(new FoundEvents(List.of(), List.of()));
  }

  @Test
  void eventsTakeSeveralPages() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    SessionKey key = append(service, 6, "x".repeat(900_000));
    FoundEvents found =
        service.getEvents(key, refs(6, "none", "e2", 4, 1, "e3", 8, "e5", 6)).blockingGet();
    assertThat(found.found().stream().map(stored -> stored.event().id()))
        .containsExactly("e6", "e2", "e4", "e1", "e3", "e5", "e6")
        .inOrder();
    for (StoredEvent stored : found.found()) {
      assertThat(stored.event().stringifyContent().length()).isEqualTo(900_000);
    }
    assertThat(found.missing()).isEqualTo(refs("none", 8));
  }

  @Test
  void aMissingSessionAnEmptyIdAndANegativeSequenceAreErrors() throws Exception {
    SessiondSessionService service = connect(MEMORY);
    SessionKey key = append(service, 0, "");
    SessionKey missing = new SessionKey(APP, USER, "no");
    assertThrows(
        SessiondNotFoundException.class, () -> service.getEvents(missing, refs(1)).blockingGet());
    assertThrows(
        IllegalArgumentException.class, () -> service.getEvents(key, refs("")).blockingGet());
    assertThrows(
        SessiondInvalidException.class, () -> service.getEvents(key, refs(-1)).blockingGet());
  }
}
