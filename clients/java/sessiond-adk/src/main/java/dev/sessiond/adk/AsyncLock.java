package dev.sessiond.adk;

import io.reactivex.rxjava3.core.Single;
import io.reactivex.rxjava3.core.SingleEmitter;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;

/** A lock that blocks no thread: actions run one after the other, in the order of subscription. */
final class AsyncLock {

  /** Each starts an action that will release the lock, or answers false. */
  private final Deque<BooleanSupplier> waiting = new ArrayDeque<>();

  private boolean held;

  /**
   * Runs {@code queued} at the subscription, in the order of the actions, and {@code action} when
   * it holds the lock. The lock is free before the result is emitted.
   */
  <T> Single<T> hold(Runnable queued, Single<T> action) {
    return Single.create(
        emitter -> {
          synchronized (waiting) {
            queued.run();
            if (held) {
              waiting.add(() -> start(action, emitter));
              return;
            }
            held = true;
          }
          if (!start(action, emitter)) {
            release();
          }
        });
  }

  private <T> boolean start(Single<T> action, SingleEmitter<T> emitter) {
    if (emitter.isDisposed()) {
      return false;
    }
    AtomicBoolean released = new AtomicBoolean();
    Runnable releaseOnce =
        () -> {
          if (released.compareAndSet(false, true)) {
            release();
          }
        };
    emitter.setDisposable(
        action
            .doOnEvent((value, failure) -> releaseOnce.run())
            .doOnDispose(releaseOnce::run)
            .subscribe(emitter::onSuccess, emitter::tryOnError));
    return true;
  }

  /** Hands the lock to the next action whose subscriber is still there. */
  private void release() {
    while (true) {
      BooleanSupplier next;
      synchronized (waiting) {
        next = waiting.poll();
        held = next != null;
      }
      if (next == null || next.getAsBoolean()) {
        return;
      }
    }
  }
}
