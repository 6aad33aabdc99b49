package dev.sessiond.adk;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.util.concurrent.Executor;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Sends the token in a file with every call. The file is read again after it has changed. */
final class TokenFile extends CallCredentials {

  /**
   * Long enough that the file costs nothing, short enough for tokens that are replaced minutes
   * before they expire.
   */
  private static final long CHECK_NANOS = 1_000_000_000;

  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final Logger log = LoggerFactory.getLogger(TokenFile.class);

  private final CredentialFiles.Source file;
  private final LongSupplier nanoTime;
  private long checked;
  private @Nullable FileTime modified;
  private String token = "";

  /** Reads the token. A file that cannot be read or has none is an IllegalArgumentException. */
  TokenFile(CredentialFiles.Source file, LongSupplier nanoTime) {
    this.file = file;
    this.nanoTime = nanoTime;
    this.checked = nanoTime.getAsLong();
    try {
      readIfChanged();
    } catch (IOException e) {
      throw new IllegalArgumentException(file.name() + ": " + e, e);
    }
  }

  @Override
  public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
    // gRPC's own thread must not wait for a file.
    executor.execute(
        () -> {
          Metadata headers = new Metadata();
          headers.put(AUTHORIZATION, "Bearer " + token());
          applier.apply(headers);
        });
  }

  /** Looks at the file at most once a second. If it cannot be read, the last token stays. */
  synchronized String token() {
    long now = nanoTime.getAsLong();
    if (now - checked >= CHECK_NANOS) {
      checked = now;
      try {
        readIfChanged();
      } catch (IOException | IllegalArgumentException e) {
        log.warn("failed to read the token file again, the last token stays: {}", e.toString());
      }
    }
    return token;
  }

  private void readIfChanged() throws IOException {
    FileTime found = Files.getLastModifiedTime(file.path());
    if (found.equals(modified)) {
      return;
    }
    String text = Files.readString(file.path()).strip();
    if (text.isEmpty() || text.chars().anyMatch(c -> c < '!' || c > '~')) {
      throw new IllegalArgumentException(
          file.name()
              + ": '"
              + file.path()
              + "' has no token. It must have one line of visible ASCII.");
    }
    token = text;
    // Only now, so that a file that was caught half written is read again.
    modified = found;
  }
}
