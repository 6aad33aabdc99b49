package com.google.adk.sessions;

import com.google.adk.events.Event;
import dev.sessiond.adk.SessiondSessionService;
import dev.sessiond.kit.Services;
import io.reactivex.rxjava3.core.Completable;
import io.reactivex.rxjava3.core.Maybe;
import io.reactivex.rxjava3.core.Single;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentMap;

/**
 * Takes the place of ADK's class of this name, which its tests and its {@code InMemoryRunner} make:
 * a {@link SessiondSessionService} with a server of its own. The class path has it first.
 */
public final class InMemorySessionService implements BaseSessionService {

  private final SessiondSessionService service = Services.start();

  @Deprecated
  @Override
  public Single<Session> createSession(
      String appName, String userId, ConcurrentMap<String, Object> state, String sessionId) {
    return Services.emit(service.createSession(appName, userId, state, sessionId));
  }

  @Override
  public Single<Session> createSession(
      String appName, String userId, Map<String, Object> state, String sessionId) {
    return Services.emit(service.createSession(appName, userId, state, sessionId));
  }

  @Override
  public Maybe<Session> getSession(
      String appName, String userId, String sessionId, Optional<GetSessionConfig> config) {
    return Services.emit(service.getSession(appName, userId, sessionId, config));
  }

  @Override
  public Single<ListSessionsResponse> listSessions(String appName, String userId) {
    return Services.emit(service.listSessions(appName, userId));
  }

  @Override
  public Completable deleteSession(String appName, String userId, String sessionId) {
    return Services.emit(service.deleteSession(appName, userId, sessionId).toMaybe())
        .ignoreElement();
  }

  @Override
  public Single<ListEventsResponse> listEvents(String appName, String userId, String sessionId) {
    return Services.emit(service.listEvents(appName, userId, sessionId));
  }

  @Override
  public Single<Event> appendEvent(Session session, Event event) {
    return Services.emit(service.appendEvent(session, event));
  }
}
