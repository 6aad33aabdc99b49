package dev.sessiond.adk;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * TLS files and the token file of a service, from settings or from the environment variables of the
 * {@code sessiond} command.
 */
final class CredentialFiles {

  /** A path, and the setting or variable that sets it, for messages. */
  record Source(Path path, String name) {}

  private @Nullable Source ca;
  private @Nullable Source certificate;
  private @Nullable Source key;
  private @Nullable Source token;

  void ca(Path path) {
    ca = new Source(path, "tlsCa");
  }

  void clientCertificate(Path certificatePath, Path keyPath) {
    certificate = new Source(certificatePath, "clientCertificate");
    key = new Source(keyPath, "clientCertificate");
  }

  void token(Path path) {
    token = new Source(path, "tokenFile");
  }

  boolean hasTls() {
    return ca != null || certificate != null;
  }

  boolean hasToken() {
    return token != null;
  }

  /** Takes the TLS files that no setting names from the environment. */
  void addTlsOf(Map<String, String> environment) {
    ca = or(ca, environment, "SESSIOND_TLS_CA");
    certificate = or(certificate, environment, "SESSIOND_CLIENT_TLS_CERT");
    key = or(key, environment, "SESSIOND_CLIENT_TLS_KEY");
  }

  /** Takes the token file from the environment if no setting names it. */
  void addTokenOf(Map<String, String> environment) {
    token = or(token, environment, "SESSIOND_TOKEN_FILE");
  }

  private static @Nullable Source or(
      @Nullable Source given, Map<String, String> environment, String variable) {
    String path = environment.getOrDefault(variable, "");
    return given != null || path.isEmpty() ? given : new Source(Path.of(path), variable);
  }

  /** TLS for an https address, else none. */
  ChannelCredentials channelCredentials(Address address) {
    if (!address.tls()) {
      Stream.of(ca, certificate, key)
          .filter(file -> file != null)
          .findFirst()
          .ifPresent(file -> refuse(file.name(), address));
      return InsecureChannelCredentials.create();
    }
    if ((certificate == null) != (key == null)) {
      throw new IllegalArgumentException(
          "The client's certificate and its key belong together. Set both.");
    }
    TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
    try {
      if (ca != null) {
        tls.trustManager(read(ca));
      }
      if (certificate != null && key != null) {
        tls.keyManager(read(certificate), read(key));
      }
    } catch (IOException e) {
      throw new IllegalArgumentException("Cannot use a TLS file: " + e, e);
    }
    return tls.build();
  }

  private static InputStream read(Source file) {
    try {
      return new ByteArrayInputStream(Files.readAllBytes(file.path()));
    } catch (IOException e) {
      throw new IllegalArgumentException(file.name() + ": " + e, e);
    }
  }

  private static void refuse(String name, Address address) {
    throw new IllegalArgumentException(
        name + " needs TLS, and " + address.place() + " has none. Use https://HOST:PORT.");
  }

  /** The token of each call, or null. It is refused where it would cross a network unencrypted. */
  @Nullable TokenFile tokenFile(Address address, boolean encrypted) {
    if (token == null) {
      return null;
    }
    if (!encrypted && !address.isLocal()) {
      throw new IllegalArgumentException(
          "Refusing to send a token to "
              + address.place()
              + " without TLS. Use https://HOST:PORT.");
    }
    return new TokenFile(token, System::nanoTime);
  }
}
