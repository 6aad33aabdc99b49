package dev.sessiond.adk;

import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Single;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Pages of a list. The next one is requested when the previous one has been taken. */
final class Pages {

  private Pages() {}

  /** {@code next} makes the request after a response, or null after the last page. */
  static <Q, R> Flowable<R> of(
      Q first, Function<Q, Single<R>> call, BiFunction<Q, R, @Nullable Q> next) {
    return Flowable.defer(
        () -> {
          Cursor<Q, R> cursor = new Cursor<>(first, call, next);
          // Repeating, not recursion: a long list must not need a deep stack.
          return Single.defer(cursor::take).toFlowable().repeatUntil(() -> cursor.request == null);
        });
  }

  private static final class Cursor<Q, R> {
    private final Function<Q, Single<R>> call;
    private final BiFunction<Q, R, @Nullable Q> next;
    private volatile @Nullable Q request;

    Cursor(Q first, Function<Q, Single<R>> call, BiFunction<Q, R, @Nullable Q> next) {
      this.request = first;
      this.call = call;
      this.next = next;
    }

    Single<R> take() {
      Q asked = request;
      return call.apply(asked).doOnSuccess(answer -> request = next.apply(asked, answer));
    }
  }
}
