package dev.sessiond.adk;

import com.google.adk.sessions.State;
import dev.sessiond.v1.JsonForm;
import dev.sessiond.v1.StateChange;
import dev.sessiond.v1.WatchRequest;
import dev.sessiond.v1.WatchResponse;
import dev.sessiond.v1.WatchServiceGrpc;
import dev.sessiond.v1.WatchStart;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.disposables.Disposable;
import io.reactivex.rxjava3.disposables.SerialDisposable;
import io.reactivex.rxjava3.schedulers.Schedulers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;

/** A watch across broken connections and restarts of the server. Every subscriber has its own. */
final class WatchFlowable extends Flowable<WatchItem> {

  /** Three of the server's heartbeats, which come every 10 seconds. */
  private static final Duration IDLE = Duration.ofSeconds(30);

  private final Calls calls;
  private final Reader reader;
  private final EventDecoder events;
  private final Scope scope;
  private final Watch watch;

  WatchFlowable(Calls calls, Reader reader, EventDecoder events, Scope scope, Watch watch) {
    this.calls = calls;
    this.reader = reader;
    this.events = events;
    this.scope = scope;
    this.watch = watch;
  }

  @Override
  protected void subscribeActual(Subscriber<? super WatchItem> subscriber) {
    Following following = new Following(subscriber, CallMetadata.fork(scope.message()));
    subscriber.onSubscribe(following);
    following.begin();
  }

  /**
   * The stream of one subscriber. gRPC delivers as many messages as were requested, so nothing is
   * buffered here. All fields belong to the monitor; items are emitted outside of it, one at a
   * time, because only one stream is open.
   */
  private final class Following implements Subscription {
    private final Subscriber<? super WatchItem> subscriber;
    private final Context context;
    private final Connection.Shared channel = calls.connection().forWatch();
    private final SerialDisposable timer = new SerialDisposable();
    private final SerialDisposable closing = new SerialDisposable();
    private final SerialDisposable reading = new SerialDisposable();

    private @Nullable ClientCall<WatchRequest, WatchResponse> call;
    private String cursor = watch.cursor();
    private long requested;
    private boolean ended;
    private boolean caughtUp;

    /** Whether the newest stream has sent a message. */
    private boolean received;

    /**
     * Whether the newest stream begins with a snapshot that has not been emitted. Until then, no
     * second message is requested: state that does not fit into the snapshot is read first.
     */
    private boolean snapshotDue;

    private boolean snapshotRequested;

    private int failed;
    private long failingSince;

    Following(Subscriber<? super WatchItem> subscriber, Context context) {
      this.subscriber = subscriber;
      this.context = context;
    }

    void begin() {
      closing.set(calls.connection().whenClosed().subscribe(this::complete));
      open();
    }

    @Override
    public void request(long count) {
      if (count <= 0) {
        fail(new IllegalArgumentException("A watch was asked for " + count + " items."));
        return;
      }
      synchronized (this) {
        boolean idle = requested == 0;
        requested = requested + count < 0 ? Long.MAX_VALUE : requested + count;
        if (call != null && !ended) {
          requestMessages(call, count);
          if (idle) {
            expectMessage(IDLE);
          }
        }
      }
    }

    @Override
    public void cancel() {
      end();
    }

    /** Whether this call has ended the watch. */
    private boolean end() {
      ClientCall<WatchRequest, WatchResponse> open;
      synchronized (this) {
        if (ended) {
          return false;
        }
        ended = true;
        open = call;
        call = null;
      }
      timer.dispose();
      closing.dispose();
      reading.dispose();
      if (open != null) {
        open.cancel("The watch has ended.", null);
      }
      channel.endWatch();
      return true;
    }

    private void complete() {
      if (end()) {
        subscriber.onComplete();
      }
    }

    private void fail(Throwable failure) {
      if (end()) {
        subscriber.onError(failure);
      }
    }

    private synchronized void open() {
      if (ended) {
        return;
      }
      WatchRequest request =
          WatchRequest.newBuilder()
              .setScope(scope.message())
              .setCursor(cursor)
              .setStart(watch.start())
              .setJsonForm(JsonForm.JSON_FORM_TEXT)
              .build();
      ClientCall<WatchRequest, WatchResponse> opened =
          channel.newCall(WatchServiceGrpc.getWatchMethod(), context, null);
      call = opened;
      received = false;
      snapshotRequested = false;
      snapshotDue = cursor.isEmpty() && watch.start() == WatchStart.WATCH_START_SNAPSHOT;
      opened.start(new Incoming(opened), new Metadata());
      opened.sendMessage(request);
      opened.halfClose();
      if (requested > 0) {
        requestMessages(opened, requested);
        expectMessage(calls.timeout());
      }
    }

    private void requestMessages(ClientCall<?, ?> call, long count) {
      if (!snapshotDue) {
        call.request((int) Math.min(count, Integer.MAX_VALUE));
      } else if (!snapshotRequested) {
        snapshotRequested = true;
        call.request(1);
      }
    }

    /** Goes on behind the snapshot, which has been emitted. */
    private synchronized void requestOthers(ClientCall<?, ?> open) {
      if (snapshotDue && call == open) {
        snapshotDue = false;
        if (requested > 0) {
          requestMessages(open, requested);
        }
      }
    }

    /** A silent connection may be broken. Silence is fine while nothing is requested. */
    private void expectMessage(Duration limit) {
      ClientCall<WatchRequest, WatchResponse> waiting = call;
      timer.set(
          Schedulers.computation()
              .scheduleDirect(
                  () -> {
                    if (waiting != null) {
                      waiting.cancel("The watch received nothing for " + limit + ".", null);
                    }
                  },
                  limit.toMillis(),
                  TimeUnit.MILLISECONDS));
    }

    private final class Incoming extends ClientCall.Listener<WatchResponse> {
      private final ClientCall<WatchRequest, WatchResponse> mine;

      Incoming(ClientCall<WatchRequest, WatchResponse> mine) {
        this.mine = mine;
      }

      @Override
      public void onMessage(WatchResponse message) {
        try {
          deliver(message);
        } catch (IllegalStateException e) {
          // A message that cannot be read would come again with every new stream.
          fail(e);
        }
      }

      private void deliver(WatchResponse message) {
        WatchItem item;
        synchronized (Following.this) {
          if (ended || call != mine) {
            return;
          }
          received = true;
          failed = 0;
          if (message.getSnapshot().getStateOmitted()) {
            timer.set(Disposable.disposed());
            reading.set(
                reader
                    .complete(scope, message.getSnapshot())
                    .map(snapshot -> message.toBuilder().setSnapshot(snapshot).build())
                    .subscribe(this::onMessage, failure -> backOff(mine, failure)));
            return;
          }
          // A message without a cursor leaves the position where it was.
          cursor = message.getCursor().isEmpty() ? cursor : message.getCursor();
          item = decode(message);
          if (item == null) {
            // Nothing for the subscriber, who still waits for as many.
            mine.request(1);
          } else if (requested != Long.MAX_VALUE) {
            requested--;
          }
          if (requested > 0) {
            expectMessage(IDLE);
          } else {
            timer.set(Disposable.disposed());
          }
        }
        if (item != null) {
          subscriber.onNext(item);
          requestOthers(mine);
        }
        if (item instanceof WatchItem.Deleted) {
          complete();
        }
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        Status failure =
            // Only Deleted ends a watch. A proxy may end a stream without it.
            status.isOk() || status.getCode() == Status.Code.CANCELLED
                ? Status.UNAVAILABLE.withDescription("The watch ended before its session did.")
                : status;
        backOff(mine, failure.asRuntimeException(trailers));
      }
    }

    private void backOff(ClientCall<?, ?> broken, Throwable failure) {
      FailedCall status;
      boolean over;
      Duration delay;
      synchronized (this) {
        if (ended || call != broken) {
          return;
        }
        call = null;
        long now = System.nanoTime();
        failingSince = failed == 0 ? now : failingSince;
        failed++;
        status = FailedCall.of(failure, failed);
        if (status.reason().equals("DRAINING")) {
          cursor = status.metadata().getOrDefault("cursor", cursor);
        }
        over =
            (status.retryable() == FailedCall.Retryable.NO && !hasOutlivedItsCredential(status))
                || now - failingSince >= watch.reconnectLimit().toNanos();
        delay = calls.retry().delay(failed, status.retryAfter());
      }
      if (calls.connection().isClosed()) {
        complete();
      } else if (over) {
        fail(Errors.of(status, failure));
      } else {
        timer.set(
            Schedulers.computation()
                .scheduleDirect(
                    () -> {
                      channel.reconnectNow();
                      open();
                    },
                    delay.toNanos(),
                    TimeUnit.NANOSECONDS));
      }
    }

    /**
     * Whether the server had accepted the credential of the stream that failed, so that there may
     * be a new one since.
     */
    private boolean hasOutlivedItsCredential(FailedCall status) {
      return received
          && (status.reason().equals("CREDENTIAL_EXPIRED")
              || status.reason().equals("CREDENTIAL_INVALID"));
    }

    /** The item of a message; null for a heartbeat and for kinds that a newer server may add. */
    private @Nullable WatchItem decode(WatchResponse message) {
      switch (message.getKindCase()) {
        case SNAPSHOT -> {
          reader.warnOfDamage(scope, message.getSnapshot());
          Map<String, Object> state =
              Json.values(Json.members(message.getSnapshot().getStateJson()));
          return new WatchItem.Snapshot(state, message.getSnapshot().getLastSequence(), cursor);
        }
        case EVENT -> {
          return new WatchItem.Appended(events.stored(message.getEvent()), cursor);
        }
        case STATE_CHANGE -> {
          return changed(message.getStateChange());
        }
        case CAUGHT_UP -> {
          // The server sends it once per stream; the subscriber gets it once.
          boolean again = caughtUp;
          caughtUp = true;
          return again ? null : new WatchItem.CaughtUp(cursor);
        }
        case SESSION_DELETED -> {
          return new WatchItem.Deleted(cursor);
        }
        default -> {
          return null;
        }
      }
    }

    private WatchItem changed(StateChange change) {
      Map<String, Object> values = new HashMap<>(EventDecoder.decodeDelta(change.getDelta()));
      List<String> removed = new ArrayList<>();
      values.forEach(
          (key, value) -> {
            if (value == State.REMOVED) {
              removed.add(key);
            }
          });
      values.keySet().removeAll(removed);
      return new WatchItem.Changed(
          values, removed, Messages.instant(change.getCommitTime()), cursor);
    }
  }
}
