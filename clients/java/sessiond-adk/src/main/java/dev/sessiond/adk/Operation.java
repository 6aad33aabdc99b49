package dev.sessiond.adk;

import dev.sessiond.v1.StateDelta;
import dev.sessiond.v1.StateOperation;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** A change of one key that the server evaluates in the commit: no concurrent one is lost. */
public sealed interface Operation {

  /** The key with its prefix. */
  String key();

  /** Adds to a number. A missing key counts as 0. */
  record Increment(String key, long by) implements Operation {}

  /** Adds to a number and makes it a double. A missing key counts as 0. */
  record IncrementDouble(String key, double by) implements Operation {}

  /**
   * Appends {@code values} to a list and keeps its newest {@code maxLength} items (0: all). A
   * missing key counts as an empty list.
   */
  record ListAppend(String key, List<?> values, int maxLength) implements Operation {}

  /** Sets {@code value} if the key has none. */
  record SetIfAbsent(String key, @Nullable Object value) implements Operation {}

  /** Merges {@code patch} into an object (RFC 7396): null removes a member. */
  record MergePatch(String key, Map<String, ?> patch) implements Operation {}

  /** Removes the key, before all other operations. A missing key is no error. */
  record Remove(String key) implements Operation {}

  /**
   * Adds the operation to a delta.
   *
   * @throws StateValueException a value has no JSON form, or the key has half a surrogate pair
   */
  default void addTo(StateDelta.Builder delta, Mender mender) {
    Json.requireKey(key());
    if (this instanceof Remove) {
      delta.addRemove(key());
      return;
    }
    StateOperation.Builder added = delta.addOperationsBuilder().setKey(key());
    if (this instanceof Increment increment) {
      added.getIncrementBuilder().setBy(increment.by());
    } else if (this instanceof IncrementDouble increment) {
      // Refuses NaN and infinities, with the key in the message.
      Json.encode(key(), increment.by(), mender);
      added.getIncrementBuilder().setByDouble(increment.by());
    } else if (this instanceof ListAppend append) {
      added
          .getListAppendBuilder()
          .setValuesJson(text(append.values(), mender))
          .setMaxLength(append.maxLength());
    } else if (this instanceof SetIfAbsent absent) {
      added.getSetIfAbsentBuilder().setValueJson(text(absent.value(), mender));
    } else if (this instanceof MergePatch merge) {
      added.getMergePatchBuilder().setPatchJson(text(merge.patch(), mender));
    }
  }

  private String text(@Nullable Object value, Mender mender) {
    return Json.write(Json.encode(key(), value, mender));
  }
}
