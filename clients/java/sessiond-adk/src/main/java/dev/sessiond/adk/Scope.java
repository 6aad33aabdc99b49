package dev.sessiond.adk;

import com.google.adk.sessions.SessionKey;

/** An application, one of its users, or a session of a user. */
public final class Scope {

  private final dev.sessiond.v1.Scope message;

  private Scope(String appName, String userId, String sessionId) {
    this.message =
        dev.sessiond.v1.Scope.newBuilder()
            .setAppName(appName)
            .setUserId(userId)
            .setSessionId(sessionId)
            .build();
  }

  /** The scope of {@code app:} keys. */
  public static Scope app(String appName) {
    return new Scope(Messages.requireId("appName", appName), "", "");
  }

  /** The scope of {@code user:} keys, which also sees those of the application. */
  public static Scope user(String appName, String userId) {
    return new Scope(
        Messages.requireId("appName", appName), Messages.requireId("userId", userId), "");
  }

  /** The scope of a session, which sees all keys. */
  public static Scope session(SessionKey key) {
    return of(Messages.key(key));
  }

  static Scope of(dev.sessiond.v1.SessionKey key) {
    return new Scope(key.getAppName(), key.getUserId(), key.getSessionId());
  }

  dev.sessiond.v1.Scope message() {
    return message;
  }
}
