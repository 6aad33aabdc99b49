package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.events.Event;
import com.google.adk.events.EventActions;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import com.google.adk.sessions.State;
import dev.sessiond.v1.AppendEventResponse;
import dev.sessiond.v1.EndInvocationRequest;
import dev.sessiond.v1.EventSelection;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.StateServiceGrpc;
import dev.sessiond.v1.UpdateStateRequest;
import io.reactivex.rxjava3.core.Completable;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Maybe;
import io.reactivex.rxjava3.core.Single;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The methods of the service beyond ADK's interface. All are lazy, as the interface's are. */
abstract class Extensions extends HistoryExtensions {

  private static final String SYSTEM = "system";

  abstract Appender appender();

  // Operations through a session object. Each appends an event, as every change of a session does.

  /**
   * Appends an event, and operations that the server evaluates in the same commit, after the
   * event's delta. Their results are added to the delta. A partial event changes nothing.
   */
  public Single<Event> appendEvent(Session session, Event event, List<Operation> operations) {
    Objects.requireNonNull(session, "session cannot be null");
    Objects.requireNonNull(event, "event cannot be null");
    if (event.partial().orElse(false)) {
      return Single.just(event);
    }
    return appender().append(session, event, List.copyOf(operations)).map(response -> event);
  }

  /** Changes state with an event without content, whose delta then has the new values. */
  public Single<Event> change(Session session, Delta delta) {
    Objects.requireNonNull(session, "session");
    return Single.defer(
        () -> {
          Map<String, Object> values = new LinkedHashMap<>();
          List<Operation> operations = new ArrayList<>();
          delta
              .values()
              .forEach(
                  (key, value) -> {
                    if (value == null) {
                      throw new IllegalArgumentException(
                          "'" + key + "' is null, which no event of ADK holds. Use updateState.");
                    }
                    values.put(key, value);
                  });
          operations.addAll(delta.operations());
          Event event = systemEvent(values);
          return appender().append(session, event, operations).map(response -> event);
        });
  }

  /**
   * Adds {@code by} and returns the sum. No concurrent increment is lost; none returns it twice.
   */
  public Single<Number> increment(Session session, String key, long by) {
    return operate(session, new Operation.Increment(key, by)).cast(Number.class).toSingle();
  }

  /** Adds {@code by}, which makes the value a double, and returns the sum. */
  public Single<Double> incrementDouble(Session session, String key, double by) {
    return operate(session, new Operation.IncrementDouble(key, by))
        .map(sum -> ((Number) sum).doubleValue())
        .toSingle();
  }

  /** Appends to a list, keeps its newest {@code maxLength} items (0: all), and returns it. */
  public Single<List<?>> appendToList(Session session, String key, List<?> values, int maxLength) {
    return operate(session, new Operation.ListAppend(key, values, maxLength))
        .<List<?>>map(list -> (List<?>) list)
        .toSingle();
  }

  /**
   * Sets a key without a value; returns its value, also if another writer has set it. Empty if that
   * is null.
   */
  public Maybe<Object> setIfAbsent(Session session, String key, @Nullable Object value) {
    return operate(session, new Operation.SetIfAbsent(key, value));
  }

  /** Merges {@code patch} into an object (RFC 7396: null removes a member), and returns it. */
  public Single<Map<?, ?>> merge(Session session, String key, Map<String, ?> patch) {
    return operate(session, new Operation.MergePatch(key, patch))
        .<Map<?, ?>>map(object -> (Map<?, ?>) object)
        .toSingle();
  }

  /** Removes keys. A missing key is no error. */
  public Completable remove(Session session, String... keys) {
    List<Operation> operations = new ArrayList<>();
    for (String key : keys) {
      operations.add(new Operation.Remove(key));
    }
    return change(session, new Delta(Map.of(), operations)).ignoreElement();
  }

  /** The value of the operation's key right after its own commit. */
  private Maybe<Object> operate(Session session, Operation operation) {
    Objects.requireNonNull(session, "session");
    if (Messages.isTemp(operation.key())) {
      throw new IllegalArgumentException(
          "'" + operation.key() + "' belongs to an invocation. Pass the operation to appendEvent.");
    }
    return Maybe.defer(
        () ->
            appender()
                .append(session, systemEvent(Map.of()), List.of(operation))
                .flatMapMaybe(response -> result(response, operation.key())));
  }

  private Maybe<Object> result(AppendEventResponse response, String key) {
    JsonNode changed = Json.members(response.getEvent().getStateDelta().getSetJson()).get(key);
    if (changed != null) {
      return Maybe.fromCallable(() -> Json.value(changed));
    }
    // The commit did not change the key. The state of a replay is that of now.
    dev.sessiond.v1.Session committed = response.getSession();
    Single<dev.sessiond.v1.Session> state =
        response.getReplayed() || !committed.hasStateJson()
            ? reader().storedAsOf(committed, response.getEvent().getSequence())
            : Single.just(committed);
    return state.flatMapMaybe(
        session -> {
          JsonNode value = Json.members(session.getStateJson()).get(key);
          return Maybe.fromCallable(() -> value == null ? null : Json.value(value));
        });
  }

  private static Event systemEvent(Map<String, Object> values) {
    return Event.builder()
        .id(Event.generateEventId())
        .author(SYSTEM)
        .actions(EventActions.builder().stateDelta(values).build())
        .build();
  }

  /**
   * Updates {@code session} in place to what is stored, including the events of others. Uncommitted
   * changes of its state are lost; {@code temp:} keys and appends in flight stay. Emits {@link
   * SessiondStaleException} if the session was deleted and created anew.
   */
  public Completable refresh(Session session) {
    return Completable.defer(
        () -> {
          dev.sessiond.v1.SessionKey key = Messages.key(session);
          Tracked tracked = sessions().of(session);
          Single<Reader.Snapshot> read =
              reader()
                  .snapshot(key, EventSelection.getDefaultInstance(), null)
                  .switchIfEmpty(Single.error(() -> Errors.notFound(key)))
                  .doOnSuccess(
                      fresh -> {
                        Reader.requireLife(tracked.uid, fresh.stored());
                        replace(session, tracked, fresh);
                      });
          return tracked.lock.hold(() -> {}, read).ignoreElement();
        });
  }

  private static void replace(Session session, Tracked tracked, Reader.Snapshot fresh) {
    Map<String, StoredValue> stored = StoredValue.of(fresh.stored());
    tracked.overlay.replace(session, StoredValue.decode(stored), fresh.events());
    session.lastUpdateTime(Messages.instant(fresh.stored().getLastEventTime()));
    tracked.record(fresh.stored(), stored);
  }

  // State without a session object.

  /** Reads the merged state of a scope with prefixed keys, without those whose value is null. */
  public Single<Map<String, Object>> getState(Scope scope) {
    return reader().state(scope, "").map(Json::values);
  }

  /** Reads the merged state of a session, with the {@code temp:} keys shared in an invocation. */
  public Single<Map<String, Object>> getState(Scope scope, String invocationId) {
    return reader().state(scope, invocationId).map(Json::values);
  }

  /**
   * Changes state outside an invocation, and returns the merged state of the scope. An
   * application's scope accepts {@code app:} keys; a user's, {@code app:} and {@code user:} keys; a
   * session's, all but {@code temp:} keys. A change through a session is an event of its log.
   */
  public Single<Map<String, Object>> updateState(Scope scope, Delta delta) {
    return Single.defer(() -> update(scope, "", delta));
  }

  /**
   * As {@link #updateState(Scope, Delta)}, of the session that was read into {@code session}, which
   * does not change. Emits {@link SessiondStaleException} if it was deleted and created anew.
   */
  public Single<Map<String, Object>> updateState(Session session, Delta delta) {
    return Single.defer(() -> update(Scope.session(session.sessionKey()), uid(session), delta));
  }

  private Single<Map<String, Object>> update(Scope scope, String uid, Delta delta) {
    Map<String, JsonNode> values = new LinkedHashMap<>();
    List<String> removed = new ArrayList<>();
    Mender mender = new Mender();
    delta
        .values()
        .forEach(
            (key, value) -> {
              if (value == State.REMOVED) {
                removed.add(key);
              } else {
                values.put(key, Json.encode(key, value, mender));
              }
            });
    UpdateStateRequest.Builder request =
        UpdateStateRequest.newBuilder()
            .setScope(scope.message())
            .setDelta(Messages.delta(values, removed, delta.operations(), mender))
            .setRequestId(UUID.randomUUID().toString())
            .setJsonForm(JsonForm.JSON_FORM_TEXT);
    mender.warn("a change of state");
    Messages.life(uid).ifPresent(request::setPrecondition);
    return calls()
        .call(StateServiceGrpc.getUpdateStateMethod(), request.build())
        .flatMap(
            response ->
                response.getStateOmitted()
                    ? reader().state(scope, "")
                    : Single.just(Json.members(response.getStateJson())))
        .map(Json::values);
  }

  /** Drops the {@code temp:} keys that were shared in an invocation. */
  public Completable endInvocation(SessionKey key, String invocationId) {
    EndInvocationRequest request =
        EndInvocationRequest.newBuilder()
            .setKey(Messages.key(key))
            .setInvocationId(Messages.requireText("invocationId", invocationId))
            .build();
    return calls().call(StateServiceGrpc.getEndInvocationMethod(), request).ignoreElement();
  }

  // Watches.

  /**
   * Follows the committed changes of a scope from a snapshot on: {@link Watch} has more choices.
   */
  public Flowable<WatchItem> watch(Scope scope) {
    return watch(scope, Watch.fromSnapshot());
  }

  /**
   * Follows the committed changes of a scope: every event once, in order; of wider scopes at least
   * the newest values.
   *
   * <p>When the connection breaks or the server restarts, the stream resumes after its last item,
   * without gap or repetition; so it does with a new token when its own expires or is revoked. It
   * completes after {@link WatchItem.Deleted} and when the service is closed. The server sends only
   * as much as the subscriber has requested. Items are emitted on a thread of gRPC, which belongs
   * to this stream until the subscriber returns.
   */
  public Flowable<WatchItem> watch(Scope scope, Watch watch) {
    return new WatchFlowable(calls(), reader(), events(), scope, watch);
  }
}
