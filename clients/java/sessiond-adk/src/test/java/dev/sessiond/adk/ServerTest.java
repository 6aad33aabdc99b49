package dev.sessiond.adk;

import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.sessions.Session;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.io.TempDir;

/** Base of tests that use a real server. */
abstract class ServerTest {

  static final String MEMORY = "memory:";
  static final String SQLITE = "sqlite:test.db";
  static final String APP = "my_app";
  static final String USER = "alice";

  @TempDir Path directory;

  private final List<AutoCloseable> opened = new ArrayList<>();

  TestServer serve(String store) throws IOException {
    return closing(TestServer.start(Files.createTempDirectory(directory, "server"), store));
  }

  SessiondSessionService connect(TestServer server) {
    return closing(server.service().build());
  }

  SessiondSessionService connect(String store) throws IOException {
    return connect(serve(store));
  }

  <T extends AutoCloseable> T closing(T resource) {
    opened.add(resource);
    return resource;
  }

  @AfterEach
  void closeAll() throws Exception {
    // Services before their servers.
    for (int i = opened.size() - 1; i >= 0; i--) {
      opened.get(i).close();
    }
  }

  static Session create(SessiondSessionService service, Map<String, Object> state) {
    return service.createSession(APP, USER, state, null).blockingGet();
  }

  static Session get(SessiondSessionService service, String sessionId) {
    return service.getSession(APP, USER, sessionId, Optional.empty()).blockingGet();
  }

  static Event message(String text) {
    return event(text, Map.of());
  }

  static Event event(String text, Map<String, Object> delta) {
    return Event.builder()
        .id(Event.generateEventId())
        .invocationId("i1")
        .author("user")
        .content(Content.fromParts(Part.fromText(text)))
        .actions(EventActions.builder().stateDelta(delta).build())
        .build();
  }

  static List<String> texts(Session session) {
    return session.events().stream().map(Event::stringifyContent).toList();
  }
}
