package dev.sessiond.adk;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Sends a hint that load balancers can hash to keep the calls of a user on one replica. The server
 * does not read it.
 */
final class Affinity implements ClientInterceptor {

  private static final Metadata.Key<String> HEADER =
      Metadata.Key.of("sessiond-affinity", Metadata.ASCII_STRING_MARSHALLER);

  /** The hint of a call, or "". */
  private static final CallOptions.Key<String> HINT =
      CallOptions.Key.createWithDefault("sessiond-affinity", "");

  /** The options of a call that sends {@code request}. */
  static CallOptions of(Message request, CallOptions options) {
    Message owner = owner(request);
    Object appName = field(owner, "app_name");
    return appName.equals("")
        ? options
        : options.withOption(HINT, hash(appName + "\0" + field(owner, "user_id")));
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

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<Q, R>(next.newCall(method, options)) {
      @Override
      public void start(Listener<R> listener, Metadata headers) {
        String hint = options.getOption(HINT);
        // One of the caller's own interceptors stays.
        if (!hint.isEmpty() && !headers.containsKey(HEADER)) {
          headers.put(HEADER, hint);
        }
        super.start(listener, headers);
      }
    };
  }
}
