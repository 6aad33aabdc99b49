import com.google.gson.Gson;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.sessiond.v1.AppendEventRequest;
import dev.sessiond.v1.AppendEventResponse;
import dev.sessiond.v1.CreateSessionRequest;
import dev.sessiond.v1.Event;
import dev.sessiond.v1.EventServiceGrpc;
import dev.sessiond.v1.Increment;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.Scope;
import dev.sessiond.v1.Session;
import dev.sessiond.v1.SessionKey;
import dev.sessiond.v1.SessionServiceGrpc;
import dev.sessiond.v1.StateDelta;
import dev.sessiond.v1.StateOperation;
import dev.sessiond.v1.WatchRequest;
import dev.sessiond.v1.WatchResponse;
import dev.sessiond.v1.WatchServiceGrpc;
import dev.sessiond.v1.WatchStart;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** A client that uses the wire contract alone: {@code java Conversation [ADDRESS]}. */
public final class Conversation {
  private static final int TIMEOUT_SECS = 10; // of one call
  private static final int RETRY_SECS = 60; // of one call and its retries
  private static final String APP = "weather";
  private static final String USER = "alice";
  private static final Gson JSON = new Gson();

  private final ManagedChannel channel;
  private final SessionServiceGrpc.SessionServiceBlockingStub sessions;
  private final EventServiceGrpc.EventServiceBlockingStub events;
  private final WatchServiceGrpc.WatchServiceBlockingStub watches;

  private Conversation(ManagedChannel channel) {
    this.channel = channel;
    sessions = SessionServiceGrpc.newBlockingStub(channel);
    events = EventServiceGrpc.newBlockingStub(channel);
    watches = WatchServiceGrpc.newBlockingStub(channel);
  }

  /** What sessiond says about a failed call. */
  record Failure(
      Status.Code code,
      String reason,
      Map<String, String> metadata,
      List<BadRequest.FieldViolation> violations,
      Duration retryDelay) {

    static Failure of(StatusRuntimeException error) throws InvalidProtocolBufferException {
      ErrorInfo info = ErrorInfo.getDefaultInstance();
      BadRequest request = BadRequest.getDefaultInstance();
      RetryInfo retry = RetryInfo.getDefaultInstance();
      for (var detail : StatusProto.fromThrowable(error).getDetailsList()) {
        if (detail.is(ErrorInfo.class)
            && detail.unpack(ErrorInfo.class).getDomain().equals("sessiond")) {
          info = detail.unpack(ErrorInfo.class);
        } else if (detail.is(BadRequest.class)) {
          request = detail.unpack(BadRequest.class);
        } else if (detail.is(RetryInfo.class)) {
          retry = detail.unpack(RetryInfo.class);
        }
      }
      var delay = retry.getRetryDelay();
      return new Failure(
          error.getStatus().getCode(),
          info.getReason(),
          new TreeMap<>(info.getMetadataMap()),
          request.getFieldViolationsList(),
          Duration.ofSeconds(delay.getSeconds(), delay.getNanos()));
    }

    /** Whether the call may be sent again. Every write below has an id, so same_id suffices. */
    boolean mayRepeat() {
      if (!reason.isEmpty()) {
        return List.of("yes", "same_id").contains(metadata.get("retryable"));
      }
      // The transport failed, and the call may have been applied.
      return code == Status.Code.UNAVAILABLE || code == Status.Code.DEADLINE_EXCEEDED;
    }
  }

  /** Waits between attempts, longer each time, until the time for retries is over. */
  final class Backoff {
    private final Instant giveUpAt = Instant.now().plusSeconds(RETRY_SECS);
    private long delayMs = 100;

    void waitOrThrow(StatusRuntimeException error) {
      try {
        Failure failure = Failure.of(error);
        if (!failure.mayRepeat() || Instant.now().isAfter(giveUpAt)) {
          throw error;
        }
        Object cause = failure.reason().isEmpty() ? failure.code() : failure.reason();
        System.err.println("retrying after " + cause);
        long jittered = ThreadLocalRandom.current().nextLong(delayMs / 2, delayMs);
        Thread.sleep(Math.max(jittered, failure.retryDelay().toMillis()));
        delayMs = Math.min(delayMs * 2, 2000);
        // The server is local, and back soon after a restart. By default gRPC waits for up to two minutes.
        channel.resetConnectBackoff();
      } catch (InterruptedException | InvalidProtocolBufferException e) {
        throw error;
      }
    }
  }

  <T> T withRetries(Supplier<T> call) {
    Backoff backoff = new Backoff();
    while (true) {
      try {
        return call.get();
      } catch (StatusRuntimeException error) {
        backoff.waitOrThrow(error);
      }
    }
  }

  Session create(String sessionId, Map<String, ?> state) {
    CreateSessionRequest request =
        CreateSessionRequest.newBuilder()
            .setAppName(APP)
            .setUserId(USER)
            .setSessionId(sessionId)
            .setStateJson(JSON.toJson(state))
            .setAllowExisting(true) // makes the call safe to repeat
            .setJsonForm(JsonForm.JSON_FORM_TEXT)
            .build();
    return withRetries(
            () ->
                sessions
                    .withDeadlineAfter(TIMEOUT_SECS, TimeUnit.SECONDS)
                    .createSession(request))
        .getSession();
  }

  /** Appends the event once, however often the call has to be sent. */
  AppendEventResponse append(SessionKey key, Event.Builder event) {
    if (event.getEventId().isEmpty()) {
      event.setEventId(UUID.randomUUID().toString());
    }
    AppendEventRequest request =
        AppendEventRequest.newBuilder()
            .setKey(key)
            .setEvent(event)
            .setReturnState(true)
            .setJsonForm(JsonForm.JSON_FORM_TEXT)
            .build();
    return withRetries(
        () -> events.withDeadlineAfter(TIMEOUT_SECS, TimeUnit.SECONDS).appendEvent(request));
  }

  /** Prints the events of a session until nothing is left to catch up on. */
  void watch(SessionKey key) {
    Scope scope =
        Scope.newBuilder()
            .setAppName(key.getAppName())
            .setUserId(key.getUserId())
            .setSessionId(key.getSessionId())
            .build();
    WatchRequest.Builder request =
        WatchRequest.newBuilder()
            .setScope(scope)
            .setStart(WatchStart.WATCH_START_BEGINNING)
            .setJsonForm(JsonForm.JSON_FORM_TEXT);
    Backoff backoff = new Backoff();
    while (true) {
      try {
        Iterator<WatchResponse> messages = watches.watch(request.build());
        while (messages.hasNext()) {
          WatchResponse message = messages.next();
          request.setCursor(message.getCursor()); // goes on from here after a lost connection
          backoff = new Backoff();
          switch (message.getKindCase()) {
            case EVENT -> {
              Event event = message.getEvent();
              System.out.printf(
                  "watched event %d by %s%n", event.getSequence(), event.getAuthor());
            }
            case CAUGHT_UP -> {
              System.out.println("caught up");
              return;
            }
            case SESSION_DELETED -> {
              System.out.println("session deleted");
              return;
            }
            default -> {}
          }
        }
      } catch (StatusRuntimeException error) {
        backoff.waitOrThrow(error);
      }
    }
  }

  static Event.Builder says(String author, String role, String text, StateDelta.Builder delta) {
    Map<String, ?> body =
        Map.of("content", Map.of("role", role, "parts", List.of(Map.of("text", text))));
    return Event.newBuilder()
        .setAuthor(author)
        .setInvocationId("turn-1")
        .setBodyJson(JSON.toJson(body))
        .setStateDelta(delta);
  }

  void run() throws InvalidProtocolBufferException {
    Map<String, ?> state = new TreeMap<>(Map.of("app:theme", "dark", "topic", "the weather"));
    Session session = create(UUID.randomUUID().toString(), state);
    System.out.println("created a session with " + session.getStateJson());

    StateOperation increment =
        StateOperation.newBuilder()
            .setKey("user:questions")
            .setIncrement(Increment.newBuilder().setBy(1))
            .build();
    StateDelta.Builder topic =
        StateDelta.newBuilder().setSetJson(JSON.toJson(Map.of("topic", "rain")));
    List<Event.Builder> turn =
        List.of(
            says("user", "user", "Will it rain?", StateDelta.newBuilder().addOperations(increment)),
            says("agent", "model", "Yes, at noon.", topic));
    String json = "";
    for (Event.Builder event : turn) {
      AppendEventResponse appended = append(session.getKey(), event);
      System.out.printf(
          "appended event %d by %s%s%n",
          appended.getEvent().getSequence(),
          appended.getEvent().getAuthor(),
          appended.getReplayed() ? ", which an earlier attempt had stored" : "");
      json = appended.getSession().getStateJson();
    }
    System.out.println("the state is " + json);

    Event.Builder refused =
        says("user", "user", "Again?", StateDelta.newBuilder().setSetJson("[]"))
            .setEventId("x".repeat(200));
    try {
      append(session.getKey(), refused);
    } catch (StatusRuntimeException error) {
      Failure failure = Failure.of(error);
      System.out.printf(
          "refused with %s, retryable: %s%n",
          failure.reason(), failure.metadata().get("retryable"));
      failure.metadata().forEach((name, value) -> System.out.println("  " + name + " = " + value));
      for (BadRequest.FieldViolation violation : failure.violations()) {
        System.out.println("  " + violation.getField() + ": " + violation.getDescription());
      }
    }

    watch(session.getKey());
  }

  public static void main(String[] args) throws Exception {
    String address = args.length > 0 ? args[0] : "127.0.0.1:50051";
    ManagedChannel channel =
        Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
    try {
      new Conversation(channel).run();
    } finally {
      channel.shutdownNow();
    }
  }
}
