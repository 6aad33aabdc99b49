package dev.sessiond.adk;

/**
 * A state value has no JSON form: NaN, an infinity, an object that Jackson cannot write, a value
 * that contains itself; or its key has half a surrogate pair. Nothing was sent.
 */
public final class StateValueException extends IllegalArgumentException {

  private final String key;

  StateValueException(String key, String fault, Throwable cause) {
    super("The value of state key '" + key + "' cannot be stored: " + fault, cause);
    this.key = key;
  }

  /** The key of the value, with its prefix. */
  public String key() {
    return key;
  }
}
