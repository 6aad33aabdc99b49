package dev.sessiond.adk;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/**
 * A hint that load balancers can hash to keep the calls of a user on one replica. The server does
 * not read it.
 */
final class Affinity {

  private Affinity() {}

  /** The hint of a request or a scope; null if it concerns no application. */
  static @Nullable String of(Message target) {
    Message owner = owner(target);
    Object appName = field(owner, "app_name");
    return appName.equals("") ? null : hash(appName + "\0" + field(owner, "user_id"));
  }

  private static Message owner(Message request) {
    if (field(request, "scope") instanceof Message scope) {
      return scope;
    }
    return field(request, "key") instanceof Message key ? key : request;
  }

  /** The value of a field, or "" if the message has no such field. */
  private static Object field(Message message, String name) {
    FieldDescriptor field = message.getDescriptorForType().findFieldByName(name);
    return field == null ? "" : message.getField(field);
  }

  private static String hash(String names) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(names.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(digest, 0, 8);
    } catch (NoSuchAlgorithmException e) {
      // Every Java has it.
      throw new IllegalStateException(e);
    }
  }
}
