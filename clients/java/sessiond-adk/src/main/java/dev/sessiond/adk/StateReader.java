package dev.sessiond.adk;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.sessions.State;
import dev.sessiond.v1.GetStateRequest;
import dev.sessiond.v1.GetStateResponse;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.Session;
import dev.sessiond.v1.SessionKey;
import dev.sessiond.v1.StateServiceGrpc;
import dev.sessiond.v1.StateSnapshot;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Single;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads state of any size: page by page where it does not fit into one response. */
final class StateReader {

  private static final Logger logger = LoggerFactory.getLogger(StateReader.class);

  private final Calls calls;
  private final boolean includeVersions;
  private final FirstTime firstTime = new FirstTime();

  StateReader(Calls calls, boolean includeVersions) {
    this.calls = calls;
    this.includeVersions = includeVersions;
  }

  /** The merged state of a scope with prefixed keys. */
  Single<Map<String, JsonNode>> state(Scope scope, String invocationId) {
    return pages(scope, invocationId, false)
        .collect(
            LinkedHashMap::new,
            (members, page) -> members.putAll(Json.members(page.getStateJson())));
  }

  /**
   * The session with its state, which is read now if it did not fit into the response that had the
   * session. Emits {@link SessiondStaleException} if another life has replaced the session since.
   */
  Single<Session> complete(Session stored) {
    warnOfDamage(stored.getKey(), stored.getDamagedKeysList());
    if (!stored.getStateOmitted()) {
      return Single.just(stored);
    }
    Map<String, JsonNode> members = new LinkedHashMap<>();
    Map<String, Long> versions = new HashMap<>();
    return pages(Scope.of(stored.getKey()), "", includeVersions)
        .doOnNext(
            page -> {
              if (!page.getUid().equals(stored.getUid())) {
                throw Errors.replaced(stored.getKey());
              }
              members.putAll(Json.members(page.getStateJson()));
              versions.putAll(page.getVersionsMap());
            })
        .ignoreElements()
        .toSingle(
            () ->
                stored.toBuilder()
                    .clearStateOmitted()
                    .setStateJson(Messages.join(members))
                    .putAllVersions(versions)
                    .build());
  }

  /** As {@link #complete(Session)}, for the snapshot of a watch. */
  Single<StateSnapshot> complete(Scope scope, StateSnapshot snapshot) {
    Session session =
        Session.newBuilder()
            .setKey(place(scope))
            .setUid(snapshot.getUid())
            .setStateOmitted(snapshot.getStateOmitted())
            .build();
    return complete(session)
        .map(
            read ->
                snapshot.toBuilder().setStateJson(read.getStateJson()).clearStateOmitted().build());
  }

  /** A scope as the place of a session; the id of what it does not name is "". */
  static SessionKey place(Scope scope) {
    return SessionKey.newBuilder()
        .setAppName(scope.message().getAppName())
        .setUserId(scope.message().getUserId())
        .setSessionId(scope.message().getSessionId())
        .build();
  }

  private Flowable<GetStateResponse> pages(Scope scope, String invocationId, boolean versions) {
    GetStateRequest first =
        GetStateRequest.newBuilder()
            .setScope(scope.message())
            .setInvocationId(Messages.requireText("invocationId", invocationId))
            .setIncludeVersions(versions)
            .setJsonForm(JsonForm.JSON_FORM_TEXT)
            .build();
    return Pages.of(
            first,
            asked -> calls.call(StateServiceGrpc.getGetStateMethod(), asked),
            (asked, page) ->
                page.getNextPageToken().isEmpty()
                    ? null
                    : asked.toBuilder().setPageToken(page.getNextPageToken()).build())
        .doOnNext(page -> warn(place(scope), page));
  }

  private void warn(SessionKey place, GetStateResponse page) {
    warnOfDamage(place, page.getDamagedKeysList());
    if (page.getStateOmitted()) {
      logger.warn("{}: left out a value that does not fit into a response", name(place));
    }
  }

  /** Names damaged values, once each: they are missing from the state. */
  void warnOfDamage(SessionKey place, List<String> keys) {
    List<String> news =
        keys.stream()
            .filter(
                key -> {
                  String owner = key.startsWith(State.USER_PREFIX) ? place.getUserId() : "";
                  return firstTime.of(place.getAppName() + '\n' + owner + '\n' + key);
                })
            .toList();
    if (!news.isEmpty()) {
      logger.warn("{}: left out damaged values of {}", name(place), String.join(", ", news));
    }
  }

  private static String name(SessionKey place) {
    return String.format(
        "application '%s', user '%s', session '%s'",
        place.getAppName(), place.getUserId(), place.getSessionId());
  }
}
