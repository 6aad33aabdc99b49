package dev.sessiond.adk;

import com.google.adk.events.Event;
import com.google.adk.sessions.Session;
import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.AppendEventResponse;
import dev.sessiond.v1.EventSelection;
import dev.sessiond.v1.EventServiceGrpc;
import dev.sessiond.v1.GetSessionRequest;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.KeyCheck;
import dev.sessiond.v1.ListEventsRequest;
import dev.sessiond.v1.Precondition;
import dev.sessiond.v1.SessionKey;
import dev.sessiond.v1.SessionServiceGrpc;
import io.reactivex.rxjava3.core.Maybe;
import io.reactivex.rxjava3.core.Single;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Appends an event once, even if the call is repeated, and then updates the caller's session. */
final class Appender {

  private final Calls calls;
  private final Reader reader;
  private final EventDecoder events;
  private final Tracked.Registry sessions;
  private final Stale stale;
  private final boolean shareTemp;

  Appender(
      Calls calls,
      Reader reader,
      EventDecoder events,
      Tracked.Registry sessions,
      Stale stale,
      boolean shareTemp) {
    this.calls = calls;
    this.reader = reader;
    this.events = events;
    this.sessions = sessions;
    this.stale = stale;
    this.shareTemp = shareTemp;
  }

  /**
   * Appends {@code event} with its delta and {@code operations} at every subscription, always under
   * the same id, and answers as the server does. {@code session} has the event and its delta from
   * the subscription on; a failure or a cancellation takes them back. {@code event} changes only
   * after the response.
   */
  Single<AppendEventResponse> append(Session session, Event event, List<Operation> operations) {
    for (Operation operation : operations) {
      if (Messages.isTemp(operation.key()) && !shareTemp) {
        throw new IllegalArgumentException(
            "The server cannot change '"
                + operation.key()
                + "', which is not shared. Use shareTemp.");
      }
    }
    return Single.defer(
        () -> {
          giveId(event);
          EncodedEvent encoded = EncodedEvent.of(event, operations, shareTemp);
          SessionKey key = Messages.key(session);
          Tracked tracked = sessions.of(session);
          CallerUpdate update = new CallerUpdate(session, event, operations, encoded, tracked);
          return tracked
              .lock
              .hold(
                  update::show,
                  Single.defer(() -> appendLocked(key, update))
                      // Before the next append begins, and before a subscriber tries again.
                      .doOnError(failure -> update.takeBack()))
              .doOnDispose(update::takeBack);
        });
  }

  /** Every retry and every subscription needs the same id. */
  private static void giveId(Event event) {
    synchronized (event) {
      if (event.id() == null || event.id().isEmpty()) {
        event.setId(Event.generateEventId());
      }
    }
  }

  private Single<AppendEventResponse> appendLocked(SessionKey key, CallerUpdate update) {
    AppendEventRequest.Builder request =
        AppendEventRequest.newBuilder()
            .setKey(key)
            .setEvent(update.encoded().message())
            .setReturnState(true)
            .setIncludeVersions(stale == Stale.CONFLICT)
            .setJsonForm(JsonForm.JSON_FORM_TEXT);
    Tracked tracked = update.tracked();
    Precondition.Builder condition = Precondition.newBuilder().setUid(tracked.uid);
    if (stale == Stale.MERGE) {
      if (!tracked.uid.isEmpty()) {
        request.setPrecondition(condition);
      }
      return commit(request.build(), update, null);
    }
    if (stale == Stale.CONFLICT && tracked.sequence != Tracked.UNKNOWN) {
      addUnchangedKeys(condition, update);
      return commit(request.setPrecondition(condition).build(), update, null);
    }
    // An object that this service has not read: its keys are unknown, so it must be current.
    return (tracked.sequence != Tracked.UNKNOWN
            ? Single.just(new ReadAt(tracked.uid, tracked.sequence))
            : findReadAt(key, update))
        .flatMap(
            readAt -> {
              condition.setUid(readAt.uid()).setExpectedSequence(Math.max(readAt.sequence(), 0));
              return commit(request.setPrecondition(condition).build(), update, readAt.sequence());
            });
  }

  /** The place in a session's log at which an object was read. */
  private record ReadAt(String uid, long sequence) {}

  /** The condition that no key of the event has changed since the session was read. */
  private static void addUnchangedKeys(Precondition.Builder unchanged, CallerUpdate update) {
    Set<String> keys = new LinkedHashSet<>(update.encoded().values().keySet());
    keys.addAll(update.encoded().removed());
    keys.removeIf(Messages::isTemp);
    for (String key : keys) {
      KeyCheck.Builder check = unchanged.addKeysBuilder().setKey(key);
      StoredValue read = update.tracked().stored.get(key);
      if (read == null) {
        check.setExists(false);
      } else if (read.version() != null) {
        check.setVersion(read.version());
      } else {
        // Forks, lists, responses without state and older servers come without versions.
        check.setValueJson(Json.write(read.value()));
      }
    }
  }

  private Single<AppendEventResponse> commit(
      AppendEventRequest request, CallerUpdate update, @Nullable Long readAt) {
    return calls
        .call(EventServiceGrpc.getAppendEventMethod(), request)
        .onErrorResumeNext(
            failure ->
                mayBeStored(failure)
                    ? replayed(request.getKey(), update).switchIfEmpty(Single.error(failure))
                    : Single.error(failure))
        .doOnSuccess(
            response -> {
              reader.warnOfDamage(response.getSession());
              update.apply(response, readAt);
            });
  }

  /** An event that is stored already can fail for either. Another life of the id has it not. */
  private static boolean mayBeStored(Throwable failure) {
    return failure instanceof SessiondAlreadyExistsException
        || (failure instanceof SessiondStaleException stale
            && !stale.call().reason().equals(Errors.REPLACED));
  }

  /**
   * The answer to an event that is stored with equal content. The server's EVENT_ID_REUSED also
   * covers events that differ only in what is not stored with them: {@code temp:} keys, operations,
   * or fields that another version of ADK writes differently.
   */
  private Maybe<AppendEventResponse> replayed(SessionKey key, CallerUpdate update) {
    EncodedEvent encoded = update.encoded();
    ListEventsRequest request =
        ListEventsRequest.newBuilder()
            .setKey(key)
            .setAuthor(encoded.message().getAuthor())
            .setInvocationId(encoded.message().getInvocationId())
            .setSelection(EventSelection.newBuilder().setIncludeRewound(true))
            .build();
    return reader
        .events(request)
        .filter(stored -> stored.getEventId().equals(encoded.message().getEventId()))
        .firstElement()
        .filter(stored -> isEqual(stored, encoded))
        .flatMapSingle(
            stored ->
                reader
                    .stored(key, update.tracked().uid)
                    .map(
                        session ->
                            AppendEventResponse.newBuilder()
                                .setEvent(stored)
                                .setReplayed(true)
                                .setSession(session)
                                .build()));
  }

  private boolean isEqual(dev.sessiond.v1.Event stored, EncodedEvent encoded) {
    return EncodedEvent.of(events.decode(stored), List.of(), false).isStoredAs(encoded);
  }

  /**
   * The place at which a session object was read that this service has not read; {@link
   * Tracked#UNKNOWN} if it is behind by an unknown number of events. It counts as current if its
   * newest event is the newest stored one, or the one before the event if that is stored already.
   */
  private Single<ReadAt> findReadAt(SessionKey key, CallerUpdate update) {
    GetSessionRequest request =
        GetSessionRequest.newBuilder()
            .setKey(key)
            .setEvents(EventSelection.newBuilder().setRecent(2))
            .setWithoutState(true)
            .setJsonForm(JsonForm.JSON_FORM_TEXT)
            .build();
    return calls
        .call(SessionServiceGrpc.getGetSessionMethod(), request)
        .flatMap(
            answer ->
                reader
                    .events(request, answer)
                    .toList()
                    .map(newest -> sequenceRead(answer.getSession(), newest, update))
                    .map(sequence -> new ReadAt(answer.getSession().getUid(), sequence)));
  }

  private static long sequenceRead(
      dev.sessiond.v1.Session session, List<dev.sessiond.v1.Event> stored, CallerUpdate update) {
    long last = session.getLastSequence();
    String here = update.newestEventId();
    String newest = idFromEnd(stored, 0);
    if (newest.equals(here)) {
      return last;
    }
    if (newest.equals(update.event().id()) && idFromEnd(stored, 1).equals(here)) {
      return stored.get(stored.size() - 1).getSequence() - 1;
    }
    if (last == 0) {
      throw Errors.stale("of its own events", "0", 1, null);
    }
    // The log has moved on. An expected sequence of 0 makes the server refuse every event that is
    // not stored yet.
    return here.isEmpty() ? 0 : Tracked.UNKNOWN;
  }

  private static String idFromEnd(List<dev.sessiond.v1.Event> stored, int back) {
    int index = stored.size() - 1 - back;
    return index < 0 ? "" : stored.get(index).getEventId();
  }
}
