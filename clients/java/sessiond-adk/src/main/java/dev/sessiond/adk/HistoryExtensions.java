package dev.sessiond.adk;

import com.google.adk.sessions.Session;
import com.google.adk.sessions.SessionKey;
import com.google.protobuf.FieldMask;
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
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The methods of the service about a session's past and its end. All are lazy. */
abstract class HistoryExtensions {

  abstract Calls calls();

  abstract Reader reader();

  abstract EventDecoder events();

  /** A session as it was right after an event (0: as created). Empty if it does not exist. */
  public Maybe<Session> getSessionAsOf(SessionKey key, long sequence) {
    return reader()
        .session(
            Messages.key(key.appName(), key.userId(), Messages.trimmed(key.id())),
            EventSelection.getDefaultInstance(),
            sequence);
  }

  /** The log from a sequence on, read page by page as it is requested. */
  public Flowable<StoredEvent> storedEvents(
      SessionKey key, long afterSequence, boolean includeRewound) {
    ListEventsRequest request =
        ListEventsRequest.newBuilder()
            .setKey(Messages.key(key.appName(), key.userId(), Messages.trimmed(key.id())))
            .setSelection(
                EventSelection.newBuilder()
                    .setAfterSequence(afterSequence)
                    .setIncludeRewound(includeRewound))
            .build();
    return reader().events(request).map(events()::stored);
  }

  /**
   * Creates a session with the events of another up to a sequence (null: all) and its state as of
   * then, and returns it without events.
   *
   * @param newSessionId the id of the new session; null or blank: a UUID
   */
  public Single<Session> forkSession(
      SessionKey key, @Nullable Long upToSequence, @Nullable String newSessionId) {
    dev.sessiond.v1.SessionKey source =
        Messages.key(key.appName(), key.userId(), Messages.trimmed(key.id()));
    return Single.defer(
        () -> {
          String id = Messages.trimmed(newSessionId);
          dev.sessiond.v1.SessionKey target =
              source.toBuilder()
                  .setSessionId(id.isEmpty() ? UUID.randomUUID().toString() : id)
                  .build();
          ForkSessionRequest.Builder request =
              ForkSessionRequest.newBuilder()
                  .setKey(source)
                  .setSessionId(target.getSessionId())
                  .setJsonForm(JsonForm.JSON_FORM_TEXT);
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
              .map(reader()::decode);
        });
  }

  /**
   * Rewinds a session to an event (0: as created), and reads it. {@link #storedEvents} still has
   * the events after it, and a rewind can be rewound. Application and user state stay.
   */
  public Single<Session> rewindSession(SessionKey key, long toSequence) {
    dev.sessiond.v1.SessionKey stored =
        Messages.key(key.appName(), key.userId(), Messages.trimmed(key.id()));
    return Single.defer(
        () -> {
          RewindSessionRequest request =
              RewindSessionRequest.newBuilder()
                  .setKey(stored)
                  .setToSequence(toSequence)
                  .setEventId(UUID.randomUUID().toString())
                  .setJsonForm(JsonForm.JSON_FORM_TEXT)
                  .build();
          return calls()
              .call(SessionServiceGrpc.getRewindSessionMethod(), request)
              .flatMap(
                  response ->
                      reader()
                          .session(stored, EventSelection.getDefaultInstance(), null)
                          .switchIfEmpty(Single.error(() -> Errors.notFound(stored))));
        });
  }

  /** Lets a session expire after a time to live from the commit; returns the expiry. */
  public Single<Instant> expireSession(SessionKey key, Duration ttl) {
    dev.sessiond.v1.Session.Builder session = dev.sessiond.v1.Session.newBuilder();
    session.getTtlBuilder().setSeconds(ttl.getSeconds()).setNanos(ttl.getNano());
    return updateSession(key, session, "ttl")
        .map(response -> Messages.instant(response.getSession().getExpireTime()));
  }

  /** Lets a session expire at a time on the server's clock; null: never. */
  public Completable expireSessionAt(SessionKey key, @Nullable Instant time) {
    dev.sessiond.v1.Session.Builder session = dev.sessiond.v1.Session.newBuilder();
    if (time != null) {
      session.setExpireTime(Messages.timestamp(time));
    }
    return updateSession(key, session, "expire_time").ignoreElement();
  }

  private Single<UpdateSessionResponse> updateSession(
      SessionKey key, dev.sessiond.v1.Session.Builder session, String path) {
    UpdateSessionRequest request =
        UpdateSessionRequest.newBuilder()
            .setKey(Messages.key(key.appName(), key.userId(), Messages.trimmed(key.id())))
            .setSession(session)
            .setUpdateMask(FieldMask.newBuilder().addPaths(path))
            .build();
    return calls().call(SessionServiceGrpc.getUpdateSessionMethod(), request);
  }
}
