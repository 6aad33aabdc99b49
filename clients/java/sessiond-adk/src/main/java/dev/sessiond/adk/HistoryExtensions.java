package dev.sessiond.adk;

import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import com.google.protobuf.FieldMask;
import dev.sessiond.v1.DeleteSessionRequest;
import dev.sessiond.v1.EventSelection;
import dev.sessiond.v1.ForkSessionRequest;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.ListEventsRequest;
import dev.sessiond.v1.RewindSessionRequest;
import dev.sessiond.v1.SessionServiceGrpc;
import dev.sessiond.v1.UpdateSessionRequest;
import dev.sessiond.v1.UpdateSessionResponse;
import io.reactivex.rxjava3.core.Completable;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Maybe;
import io.reactivex.rxjava3.core.Single;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The methods of the service about a session's past and its end. All are lazy. */
abstract class HistoryExtensions {

  abstract Calls calls();

  abstract Reader reader();

  abstract EventDecoder events();

  abstract Tracked.Registry sessions();

  /** Which life of its id a session object belongs to; "" if that is unknown. */
  String uid(Session session) {
    return sessions().of(session).uid;
  }

  /** A session as it was right after an event (0: as created). Empty if it does not exist. */
  public Maybe<Session> getSessionAsOf(SessionKey key, long sequence) {
    return reader().session(Messages.key(key), EventSelection.getDefaultInstance(), sequence);
  }

  /** The log from a sequence on, read page by page as it is requested. */
  public Flowable<StoredEvent> storedEvents(
      SessionKey key, long afterSequence, boolean includeRewound) {
    ListEventsRequest request =
        ListEventsRequest.newBuilder()
            .setKey(Messages.key(key))
            .setSelection(
                EventSelection.newBuilder()
                    .setAfterSequence(afterSequence)
                    .setIncludeRewound(includeRewound))
            .build();
    return reader().events(request).map(events()::stored);
  }

  /**
   * Reads events by their ids and sequences, also those that a rewind hid. Without refs it sends
   * nothing. Fails with {@link SessiondNotFoundException} if the session does not exist, and with
   * an {@link IllegalArgumentException} if an id is empty or has half a surrogate pair. The server
   * refuses a negative sequence ({@link SessiondInvalidException}).
   */
  public Single<FoundEvents> getEvents(SessionKey key, List<EventRef> refs) {
    return reader()
        .events(Messages.key(key), refs)
        .toList()
        .map(
            pages ->
                new FoundEvents(
                    pages.stream()
                        .flatMap(page -> page.getEventsList().stream())
                        .map(events()::stored)
                        .toList(),
                    pages.stream()
                        .flatMap(page -> page.getMissingList().stream())
                        .map(Messages::ref)
                        .toList()));
  }

  // Changes. With a session object, they fail with SessiondStaleException if its session was
  // deleted and created anew; with a key, whatever session has the id is changed.

  /**
   * Deletes the session that was read into {@code session}, even if the call is repeated. A session
   * that was created under its id since then stays; a missing one is no error.
   */
  public Completable deleteSession(Session session) {
    return Completable.defer(() -> delete(Messages.key(session), uid(session)));
  }

  Completable delete(dev.sessiond.v1.SessionKey key, String uid) {
    DeleteSessionRequest.Builder request =
        DeleteSessionRequest.newBuilder().setKey(key).setAllowMissing(true);
    Messages.life(uid).ifPresent(request::setPrecondition);
    return calls()
        .call(SessionServiceGrpc.getDeleteSessionMethod(), request.build())
        .ignoreElement();
  }

  /** As {@link #forkSession(SessionKey, Long, String)}, of the session that was read. */
  public Single<Session> forkSession(
      Session session, @Nullable Long upToSequence, @Nullable String newSessionId) {
    return Single.defer(
        () -> fork(Messages.key(session), uid(session), upToSequence, newSessionId));
  }

  /**
   * Creates a session with the events of another up to a sequence (null: all) and its state as of
   * then, and returns it without events.
   *
   * @param newSessionId the id of the new session; null or "": a UUID
   */
  public Single<Session> forkSession(
      SessionKey key, @Nullable Long upToSequence, @Nullable String newSessionId) {
    return Single.defer(() -> fork(Messages.key(key), "", upToSequence, newSessionId));
  }

  private Single<Session> fork(
      dev.sessiond.v1.SessionKey source,
      String uid,
      @Nullable Long upToSequence,
      @Nullable String newSessionId) {
    dev.sessiond.v1.SessionKey target =
        Messages.key(source.getAppName(), source.getUserId(), Messages.idOrNew(newSessionId));
    ForkSessionRequest.Builder request =
        ForkSessionRequest.newBuilder()
            .setKey(source)
            .setSessionId(target.getSessionId())
            .setJsonForm(JsonForm.JSON_FORM_TEXT);
    Messages.life(uid).ifPresent(request::setPrecondition);
    if (upToSequence != null) {
      request.setUpToSequence(upToSequence);
    }
    return calls()
        .call(SessionServiceGrpc.getForkSessionMethod(), request.build())
        .map(response -> response.getSession())
        .onErrorResumeNext(
            failure ->
                // The response of an earlier attempt may be lost. A fork names its source.
                failure instanceof SessiondAlreadyExistsException taken
                    ? reader()
                        .possiblyCreated(target, taken.call())
                        .filter(found -> found.getForkedFrom().getKey().equals(source))
                        .filter(
                            found ->
                                upToSequence == null
                                    || found.getForkedFrom().getSequence() == upToSequence)
                        .switchIfEmpty(Single.error(failure))
                    : Single.error(failure))
        .flatMap(reader()::complete)
        .map(reader()::decode);
  }

  /** As {@link #rewindSession(SessionKey, long)}, of the session that was read. */
  public Single<Session> rewindSession(Session session, long toSequence) {
    return Single.defer(() -> rewind(Messages.key(session), uid(session), toSequence));
  }

  /**
   * Rewinds a session to an event (0: as created), and reads it. {@link #storedEvents} still has
   * the events after it, and a rewind can be rewound. Application and user state stay.
   */
  public Single<Session> rewindSession(SessionKey key, long toSequence) {
    return Single.defer(() -> rewind(Messages.key(key), "", toSequence));
  }

  private Single<Session> rewind(dev.sessiond.v1.SessionKey key, String uid, long toSequence) {
    RewindSessionRequest.Builder request =
        RewindSessionRequest.newBuilder()
            .setKey(key)
            .setToSequence(toSequence)
            .setEventId(UUID.randomUUID().toString())
            .setJsonForm(JsonForm.JSON_FORM_TEXT);
    Messages.life(uid).ifPresent(request::setPrecondition);
    return calls()
        .call(SessionServiceGrpc.getRewindSessionMethod(), request.build())
        .flatMap(
            response ->
                reader()
                    .snapshot(key, EventSelection.getDefaultInstance(), null)
                    .switchIfEmpty(Single.error(() -> Errors.notFound(key)))
                    .doOnSuccess(
                        read -> Reader.requireLife(response.getSession().getUid(), read.stored())))
        .map(reader()::decode);
  }

  /** As {@link #expireSession(SessionKey, Duration)}, of the session that was read. */
  public Single<Instant> expireSession(Session session, Duration ttl) {
    return Single.defer(() -> expire(Messages.key(session), uid(session), ttl));
  }

  /** Lets a session expire after a time to live from the commit; returns the expiry. */
  public Single<Instant> expireSession(SessionKey key, Duration ttl) {
    return Single.defer(() -> expire(Messages.key(key), "", ttl));
  }

  private Single<Instant> expire(dev.sessiond.v1.SessionKey key, String uid, Duration ttl) {
    dev.sessiond.v1.Session.Builder session = dev.sessiond.v1.Session.newBuilder();
    session.getTtlBuilder().setSeconds(ttl.getSeconds()).setNanos(ttl.getNano());
    return updateSession(key, uid, session, "ttl")
        .map(response -> Messages.instant(response.getSession().getExpireTime()));
  }

  /** As {@link #expireSessionAt(SessionKey, Instant)}, of the session that was read. */
  public Completable expireSessionAt(Session session, @Nullable Instant time) {
    return Completable.defer(() -> expireAt(Messages.key(session), uid(session), time));
  }

  /** Lets a session expire at a time on the server's clock; null: never. */
  public Completable expireSessionAt(SessionKey key, @Nullable Instant time) {
    return Completable.defer(() -> expireAt(Messages.key(key), "", time));
  }

  private Completable expireAt(dev.sessiond.v1.SessionKey key, String uid, @Nullable Instant time) {
    dev.sessiond.v1.Session.Builder session = dev.sessiond.v1.Session.newBuilder();
    if (time != null) {
      session.setExpireTime(Messages.timestamp(time));
    }
    return updateSession(key, uid, session, "expire_time").ignoreElement();
  }

  private Single<UpdateSessionResponse> updateSession(
      dev.sessiond.v1.SessionKey key,
      String uid,
      dev.sessiond.v1.Session.Builder session,
      String path) {
    UpdateSessionRequest.Builder request =
        UpdateSessionRequest.newBuilder()
            .setKey(key)
            .setSession(session)
            .setUpdateMask(FieldMask.newBuilder().addPaths(path));
    Messages.life(uid).ifPresent(request::setPrecondition);
    return calls().call(SessionServiceGrpc.getUpdateSessionMethod(), request.build());
  }
}
