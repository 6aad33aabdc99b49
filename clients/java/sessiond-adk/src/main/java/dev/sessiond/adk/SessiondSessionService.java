package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.events.Event;
import com.google.adk.sessions.BaseSessionService;
import com.google.adk.sessions.GetSessionConfig;
import com.google.adk.sessions.ListEventsResponse;
import com.google.adk.sessions.ListSessionsResponse;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import com.google.errorprone.annotations.CanIgnoreReturnValue;
import dev.sessiond.v1.CreateSessionRequest;
import dev.sessiond.v1.EventSelection;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.ListEventsRequest;
import dev.sessiond.v1.SessionKey;
import dev.sessiond.v1.SessionServiceGrpc;
import io.reactivex.rxjava3.core.Completable;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Maybe;
import io.reactivex.rxjava3.core.Single;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentMap;
import org.jspecify.annotations.Nullable;

/**
 * Stores ADK sessions in sessiond: {@code new SessiondSessionService("127.0.0.1:50051")}.
 *
 * <p>A service has one channel, and a further one for each 200 watches. It can be shared by runners
 * and threads. Everything it returns is lazy: a call is sent when it is subscribed to, and blocks
 * no thread. A failed call emits an exception with the server's reason ({@link SessiondFailure}). A
 * write that fails because the server is unreachable or slow may have been applied; only an append
 * of the same event can always be repeated.
 */
public final class SessiondSessionService extends Extensions
    implements BaseSessionService, AutoCloseable {

  /** Names the call that created a session, so that a retry recognizes its own session. */
  static final String CREATION_LABEL = "sessiond-adk/creation";

  private final Connection connection;
  private final Duration closeGrace;
  private final Calls calls;
  private final EventDecoder events = new EventDecoder();
  private final Tracked.Registry sessions = new Tracked.Registry();
  private final boolean includeVersions;
  private final Reader reader;
  private final Appender appender;

  /**
   * A service with the default settings. Connects at the first call.
   *
   * @param address {@code HOST:PORT}, {@code unix:/PATH}, {@code sessiond://HOST:PORT}, {@code
   *     sessiond:///PATH} of a unix socket, {@code http://HOST:PORT} or {@code https://HOST:PORT};
   *     a {@code sessiond} URI may set {@code ?timeout=5&stale=error}
   */
  public SessiondSessionService(String address) {
    this(builder(address));
  }

  SessiondSessionService(ServiceBuilder builder) {
    this.connection =
        new Connection(
            builder.address,
            builder.chosenChannelCredentials(),
            builder.chosenCallCredentials(),
            builder.configure);
    this.closeGrace = builder.closeGrace;
    this.calls =
        new Calls(
            connection,
            builder.chosenTimeout(),
            builder.chosenAbsence(),
            builder.retry,
            builder.scheduler);
    this.includeVersions = builder.stale == Stale.CONFLICT;
    this.reader = new Reader(calls, events, sessions, includeVersions);
    this.appender = new Appender(calls, reader, events, sessions, builder.stale, builder.shareTemp);
  }

  /** Begins a service with settings of its own; {@code address} as in the constructor. */
  public static ServiceBuilder builder(String address) {
    return new ServiceBuilder(Address.parse(address));
  }

  /**
   * @deprecated ADK's own form; use the one with a {@link Map}.
   */
  @Deprecated
  @Override
  public Single<Session> createSession(
      String appName,
      String userId,
      @Nullable ConcurrentMap<String, Object> state,
      @Nullable String sessionId) {
    return createSession(appName, userId, (Map<String, Object>) state, sessionId);
  }

  /**
   * Creates a session. The id is taken as it is; null or "" becomes a UUID. {@code temp:} keys are
   * dropped. Emits {@link SessiondAlreadyExistsException} if the id is taken.
   */
  @Override
  public Single<Session> createSession(
      String appName,
      String userId,
      @Nullable Map<String, Object> state,
      @Nullable String sessionId) {
    Objects.requireNonNull(appName, "appName cannot be null");
    Objects.requireNonNull(userId, "userId cannot be null");
    return Single.defer(
        () -> {
          SessionKey key = Messages.key(appName, userId, Messages.idOrNew(sessionId));
          String creation = UUID.randomUUID().toString();
          CreateSessionRequest request =
              CreateSessionRequest.newBuilder()
                  .setAppName(appName)
                  .setUserId(userId)
                  .setSessionId(key.getSessionId())
                  .setStateJson(initialState(key.getSessionId(), state == null ? Map.of() : state))
                  .setSession(
                      dev.sessiond.v1.Session.newBuilder().putLabels(CREATION_LABEL, creation))
                  .setIncludeVersions(includeVersions)
                  .setJsonForm(JsonForm.JSON_FORM_TEXT)
                  .build();
          return calls
              .call(SessionServiceGrpc.getCreateSessionMethod(), request)
              .map(response -> response.getSession())
              .onErrorResumeNext(
                  failure ->
                      // The response of an earlier attempt may be lost. Its session has our label.
                      failure instanceof SessiondAlreadyExistsException taken
                          ? reader
                              .possiblyCreated(key, taken.call())
                              .filter(
                                  found ->
                                      creation.equals(found.getLabelsMap().get(CREATION_LABEL)))
                              .switchIfEmpty(Single.error(failure))
                          : Single.error(failure))
              .flatMap(reader::complete)
              .map(reader::decode);
        });
  }

  private static String initialState(String sessionId, Map<String, Object> state) {
    Map<String, JsonNode> members = new LinkedHashMap<>();
    Mender mender = new Mender();
    state.forEach(
        (key, value) -> {
          if (!Messages.isTemp(key) && value != State.REMOVED) {
            members.put(key, Json.encode(key, value, mender));
          }
        });
    mender.warn("session " + sessionId);
    return Messages.join(members);
  }

  /**
   * Reads a session with the events that {@code config} selects, oldest first. Empty if it does not
   * exist. State and events belong to one moment, however many pages the events fill.
   */
  @Override
  public Maybe<Session> getSession(
      String appName, String userId, String sessionId, Optional<GetSessionConfig> config) {
    Objects.requireNonNull(appName, "appName cannot be null");
    Objects.requireNonNull(userId, "userId cannot be null");
    Objects.requireNonNull(sessionId, "sessionId cannot be null");
    Objects.requireNonNull(config, "config cannot be null");
    if (appName.isEmpty() || userId.isEmpty() || sessionId.isEmpty()) {
      // No session has such a key. The server would look up a bare id among all users.
      return Maybe.empty();
    }
    EventSelection selection = Reader.select(config).orElse(null);
    return Maybe.defer(
        () -> reader.session(Messages.key(appName, userId, sessionId), selection, null));
  }

  /** Lists the sessions of a user with merged state and without events, the oldest first. */
  @Override
  public Single<ListSessionsResponse> listSessions(String appName, String userId) {
    Objects.requireNonNull(appName, "appName cannot be null");
    Objects.requireNonNull(userId, "userId cannot be null");
    if (appName.isEmpty() || userId.isEmpty()) {
      return Single.just(ListSessionsResponse.builder().build());
    }
    return Flowable.defer(() -> reader.sessions(appName, userId))
        // A session that is used between two pages is in both. The later one is newer.
        .collect(
            () -> new HashMap<String, Session>(),
            (found, stored) -> found.put(stored.getKey().getSessionId(), reader.decode(stored)))
        .map(
            found ->
                ListSessionsResponse.builder()
                    .sessions(
                        found.values().stream()
                            .sorted(
                                Comparator.comparing((Session one) -> one.lastUpdateTime())
                                    .thenComparing(Session::id))
                            .toList())
                    .build());
  }

  /** Deletes a session with its events and its own state. A missing session is no error. */
  @Override
  public Completable deleteSession(String appName, String userId, String sessionId) {
    Objects.requireNonNull(appName, "appName cannot be null");
    Objects.requireNonNull(userId, "userId cannot be null");
    Objects.requireNonNull(sessionId, "sessionId cannot be null");
    if (appName.isEmpty() || userId.isEmpty() || sessionId.isEmpty()) {
      return Completable.complete();
    }
    return Completable.defer(() -> delete(Messages.key(appName, userId, sessionId), ""));
  }

  /** All events of a session; none if it does not exist, as ADK's in-memory service. */
  @Override
  public Single<ListEventsResponse> listEvents(String appName, String userId, String sessionId) {
    Objects.requireNonNull(appName, "appName cannot be null");
    Objects.requireNonNull(userId, "userId cannot be null");
    Objects.requireNonNull(sessionId, "sessionId cannot be null");
    if (appName.isEmpty() || userId.isEmpty() || sessionId.isEmpty()) {
      return Single.just(ListEventsResponse.builder().build());
    }
    return Flowable.defer(
            () ->
                reader.events(
                    ListEventsRequest.newBuilder()
                        .setKey(Messages.key(appName, userId, sessionId))
                        .build()))
        .map(events::decode)
        .toList()
        .onErrorResumeNext(
            failure ->
                failure instanceof SessiondNotFoundException
                    ? Single.just(List.of())
                    : Single.error(failure))
        .map(list -> ListEventsResponse.builder().events(list).build());
  }

  /**
   * Appends an event with its delta in one durable commit, and emits {@code event}.
   *
   * <p>{@code session} has the event and its delta from the subscription on, as with ADK's own
   * services; a failure or a cancellation takes them back. After the response its state is the
   * server's after the commit, including the changes and removals of others. Events of others are
   * not added; {@code getSession} and {@link #refresh} read them. {@code temp:} keys move from
   * {@code event} into {@code session}. A partial event changes nothing. An event that is stored
   * already is not stored again, so that subscribing twice or {@code retry()} appends once.
   */
  @CanIgnoreReturnValue
  @Override
  public Single<Event> appendEvent(Session session, Event event) {
    return appendEvent(session, event, List.of());
  }

  /**
   * Ends watches, waits for in-flight calls up to {@code closeGrace}, and closes all channels.
   * Later calls fail with {@link SessiondClosedException}.
   */
  @Override
  public void close() {
    connection.close(closeGrace);
  }

  @Override
  Calls calls() {
    return calls;
  }

  @Override
  Reader reader() {
    return reader;
  }

  @Override
  Appender appender() {
    return appender;
  }

  @Override
  EventDecoder events() {
    return events;
  }

  @Override
  Tracked.Registry sessions() {
    return sessions;
  }
}
