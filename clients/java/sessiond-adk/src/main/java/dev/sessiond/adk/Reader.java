package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.events.Event;
import com.google.adk.sessions.GetSessionConfig;
import com.google.adk.sessions.Session;
import dev.sessiond.v1.BatchGetEventsRequest;
import dev.sessiond.v1.BatchGetEventsResponse;
import dev.sessiond.v1.EventSelection;
import dev.sessiond.v1.EventServiceGrpc;
import dev.sessiond.v1.GetSessionRequest;
import dev.sessiond.v1.GetSessionResponse;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.ListEventsRequest;
import dev.sessiond.v1.ListEventsResponse;
import dev.sessiond.v1.ListSessionsRequest;
import dev.sessiond.v1.SessionKey;
import dev.sessiond.v1.SessionServiceGrpc;
import dev.sessiond.v1.StateSnapshot;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Maybe;
import io.reactivex.rxjava3.core.Single;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** Reads sessions, events and state. */
final class Reader {

  /**
   * The server's maximum, which is also the most refs of a request. It also cuts pages at the size
   * of a message.
   */
  static final int PAGE_SIZE = 1000;

  /** How often a session is read that is replaced in the middle of it. */
  private static final int MAX_READS = 3;

  private final Calls calls;
  private final EventDecoder events;
  private final Tracked.Registry sessions;
  private final boolean includeVersions;
  private final StateReader states;

  /** With {@code includeVersions}, reads of sessions ask for the versions of their keys. */
  Reader(Calls calls, EventDecoder events, Tracked.Registry sessions, boolean includeVersions) {
    this.calls = calls;
    this.events = events;
    this.sessions = sessions;
    this.includeVersions = includeVersions;
    this.states = new StateReader(calls, includeVersions);
  }

  /** State and events of one moment, however many pages the events fill. */
  record Snapshot(dev.sessiond.v1.Session stored, Iterable<Event> events) {}

  /** A session now, or as of an event. Empty if it does not exist. */
  Maybe<Session> session(
      SessionKey key, @Nullable EventSelection selection, @Nullable Long asOfSequence) {
    return snapshot(key, selection, asOfSequence).map(this::decode);
  }

  /** As {@link #session}, before decoding. Another life that comes in between is read anew. */
  Maybe<Snapshot> snapshot(
      SessionKey key, @Nullable EventSelection selection, @Nullable Long asOfSequence) {
    GetSessionRequest.Builder request = request(key, asOfSequence);
    if (selection != null) {
      request.setEvents(selection);
    }
    GetSessionRequest asked = request.build();
    return calls
        .call(SessionServiceGrpc.getGetSessionMethod(), asked)
        .flatMap(
            answer ->
                complete(answer.getSession(), asOfSequence)
                    .zipWith(events(asked, answer).map(events::decode).toList(), Snapshot::new))
        .retry(MAX_READS - 1, Reader::isOfEarlierLife)
        .toMaybe()
        // Also if it was deleted between two pages.
        .onErrorResumeNext(
            failure ->
                failure instanceof SessiondNotFoundException
                    ? Maybe.empty()
                    : Maybe.error(failure));
  }

  private static boolean isOfEarlierLife(Throwable failure) {
    String reason = SessiondFailure.find(failure).map(FailedCall::reason).orElse("");
    return reason.equals(Errors.REPLACED) || reason.equals("BAD_PAGE_TOKEN");
  }

  private GetSessionRequest.Builder request(SessionKey key, @Nullable Long asOfSequence) {
    GetSessionRequest.Builder request =
        GetSessionRequest.newBuilder()
            .setKey(key)
            .setIncludeVersions(includeVersions)
            .setJsonForm(JsonForm.JSON_FORM_TEXT);
    if (asOfSequence != null) {
      request.setAsOfSequence(asOfSequence);
    }
    return request;
  }

  /** The events that a read of a session selects: of its answer, and of the pages behind it. */
  Flowable<dev.sessiond.v1.Event> events(GetSessionRequest asked, GetSessionResponse answer) {
    Flowable<dev.sessiond.v1.Event> first = Flowable.fromIterable(answer.getEventsList());
    if (answer.getNextPageToken().isEmpty()) {
      return first;
    }
    ListEventsRequest rest =
        ListEventsRequest.newBuilder()
            .setKey(asked.getKey())
            .setSelection(asked.getEvents())
            .setPageToken(answer.getNextPageToken())
            .build();
    return first.concatWith(events(rest));
  }

  /** The session of a response with its state, even if that did not fit into the response. */
  Single<dev.sessiond.v1.Session> complete(dev.sessiond.v1.Session stored) {
    return states.complete(stored);
  }

  private Single<dev.sessiond.v1.Session> complete(
      dev.sessiond.v1.Session stored, @Nullable Long asOfSequence) {
    // Only the state of now comes in pages.
    return asOfSequence != null && stored.getStateOmitted()
        ? Single.error(() -> Errors.pastTooLarge(stored.getKey(), asOfSequence))
        : complete(stored);
  }

  /** As for a session. */
  Single<StateSnapshot> complete(Scope scope, StateSnapshot snapshot) {
    return states.complete(scope, snapshot);
  }

  void warnOfDamage(Scope scope, StateSnapshot snapshot) {
    states.warnOfDamage(StateReader.place(scope), snapshot.getDamagedKeysList());
  }

  /** Warns of damaged values in a response that is not read by {@link #complete}. */
  void warnOfDamage(dev.sessiond.v1.Session stored) {
    states.warnOfDamage(stored.getKey(), stored.getDamagedKeysList());
  }

  /** ADK's session of a stored one, and what an append needs to know of it. */
  Session decode(dev.sessiond.v1.Session stored) {
    return decode(new Snapshot(stored, List.of()));
  }

  Session decode(Snapshot snapshot) {
    dev.sessiond.v1.Session stored = snapshot.stored();
    Map<String, StoredValue> values = StoredValue.of(stored);
    Session session =
        Session.builder(stored.getKey().getSessionId())
            .appName(stored.getKey().getAppName())
            .userId(stored.getKey().getUserId())
            .state(new ConcurrentHashMap<>(StoredValue.decode(values)))
            .lastUpdateTime(Messages.instant(stored.getLastEventTime()))
            .build();
    snapshot.events().forEach(session.events()::add);
    sessions.of(session).record(stored, values);
    return session;
  }

  /** A stored session of this life (if not "") with merged state and without events. */
  Single<dev.sessiond.v1.Session> stored(SessionKey key, String uid) {
    return stored(key, uid, null).flatMap(this::complete);
  }

  /**
   * The session of {@code known} right after an event. Past state does not come in pages: if it
   * does not fit into a response, the state of now has to do.
   */
  Single<dev.sessiond.v1.Session> storedAsOf(dev.sessiond.v1.Session known, long sequence) {
    return stored(known.getKey(), known.getUid(), sequence).flatMap(this::complete);
  }

  private Single<dev.sessiond.v1.Session> stored(
      SessionKey key, String uid, @Nullable Long asOfSequence) {
    return calls
        .call(SessionServiceGrpc.getGetSessionMethod(), request(key, asOfSequence).build())
        .map(response -> requireLife(uid, response.getSession()));
  }

  /**
   * Answers {@code session} if it is the life that {@code uid} names.
   *
   * @throws SessiondStaleException it is another one; "" names none, so that any is right
   */
  static dev.sessiond.v1.Session requireLife(String uid, dev.sessiond.v1.Session session) {
    if (!uid.isEmpty() && !uid.equals(session.getUid())) {
      throw Errors.replaced(session.getKey());
    }
    return session;
  }

  /**
   * The session at {@code key} if an earlier attempt of a call that failed with {@code failure} may
   * have created it.
   */
  Maybe<dev.sessiond.v1.Session> possiblyCreated(SessionKey key, FailedCall failure) {
    if (failure.attempts() == 1 || !failure.reason().equals("SESSION_EXISTS")) {
      return Maybe.empty();
    }
    return stored(key, "")
        .toMaybe()
        .onErrorComplete(error -> error instanceof SessiondNotFoundException);
  }

  /** All stored events from the page of {@code request} on, a page at a time. */
  Flowable<dev.sessiond.v1.Event> events(ListEventsRequest request) {
    ListEventsRequest page =
        request.toBuilder().setPageSize(PAGE_SIZE).setJsonForm(JsonForm.JSON_FORM_TEXT).build();
    return Pages.of(
            page,
            asked -> calls.call(EventServiceGrpc.getListEventsMethod(), asked),
            (asked, answer) ->
                answer.getNextPageToken().isEmpty()
                    ? null
                    : asked.toBuilder().setPageToken(answer.getNextPageToken()).build())
        .concatMapIterable(ListEventsResponse::getEventsList);
  }

  /** Events by their ids and sequences, a page at a time. */
  Flowable<BatchGetEventsResponse> events(SessionKey key, List<EventRef> refs) {
    return Flowable.fromIterable(refs)
        .map(Messages::ref)
        .buffer(PAGE_SIZE)
        .map(
            named ->
                BatchGetEventsRequest.newBuilder()
                    .setKey(key)
                    .addAllRefs(named)
                    .setJsonForm(JsonForm.JSON_FORM_TEXT)
                    .build())
        .concatMap(
            first ->
                Pages.of(
                    first,
                    asked -> calls.call(EventServiceGrpc.getBatchGetEventsMethod(), asked),
                    (asked, page) ->
                        page.getNextPageToken().isEmpty()
                            ? null
                            : asked.toBuilder().setPageToken(page.getNextPageToken()).build()));
  }

  /** The merged state of a scope with prefixed keys. */
  Single<Map<String, JsonNode>> state(Scope scope, String invocationId) {
    return states.state(scope, invocationId);
  }

  /** The sessions of a user with merged state. */
  Flowable<dev.sessiond.v1.Session> sessions(String appName, String userId) {
    ListSessionsRequest first =
        ListSessionsRequest.newBuilder()
            .setAppName(Messages.requireText("appName", appName))
            .setUserId(Messages.requireText("userId", userId))
            .setPageSize(PAGE_SIZE)
            .setIncludeState(true)
            .setJsonForm(JsonForm.JSON_FORM_TEXT)
            .build();
    return Pages.of(
            first,
            asked -> calls.call(SessionServiceGrpc.getListSessionsMethod(), asked),
            (asked, page) ->
                page.getNextPageToken().isEmpty()
                    ? null
                    : asked.toBuilder().setPageToken(page.getNextPageToken()).build())
        .concatMapIterable(page -> page.getSessionsList())
        .concatMapMaybe(this::completeUnlessGone);
  }

  /** A session that is deleted while its state is read is not listed. */
  private Maybe<dev.sessiond.v1.Session> completeUnlessGone(dev.sessiond.v1.Session listed) {
    return complete(listed)
        .toMaybe()
        .onErrorComplete(
            failure ->
                listed.getStateOmitted()
                    && (failure instanceof SessiondNotFoundException || isOfEarlierLife(failure)));
  }

  /**
   * The events that {@code config} selects; empty selects none. No filter without a value; {@code
   * numRecentEvents} of 0 selects none; with both, the newest of those that are not older.
   */
  static Optional<EventSelection> select(Optional<GetSessionConfig> config) {
    EventSelection.Builder selection = EventSelection.newBuilder();
    config.flatMap(GetSessionConfig::numRecentEvents).ifPresent(selection::setRecent);
    Optional<Instant> after = config.flatMap(GetSessionConfig::afterTimestamp);
    if (after.isPresent() && after.get().isAfter(Messages.LATEST)) {
      return Optional.empty();
    }
    after
        .filter(time -> time.isAfter(Messages.EARLIEST))
        .ifPresent(time -> selection.setAfterTime(Messages.timestamp(time)));
    return Optional.of(selection.build());
  }
}
