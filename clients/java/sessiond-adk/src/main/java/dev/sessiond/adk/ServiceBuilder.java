package dev.sessiond.adk;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannelBuilder;
import io.reactivex.rxjava3.core.Scheduler;
import io.reactivex.rxjava3.schedulers.Schedulers;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Settings of a {@link SessiondSessionService}. */
public final class ServiceBuilder {
  /** Long enough for a server that restarts or is busy, short enough for a user who waits. */
  private static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(15);

  /** A server on this machine refuses connections only if it is not there. */
  private static final Duration LOCAL_ABSENCE = Duration.ofSeconds(3);

  final Address address;
  private @Nullable Duration timeout;
  Stale stale = Stale.MERGE;
  RetryPolicy retry = RetryPolicy.DEFAULT;
  boolean shareTemp;
  Duration closeGrace = Duration.ofSeconds(5);
  Scheduler scheduler = Schedulers.io();
  Map<String, String> environment = System.getenv();
  private final CredentialFiles files = new CredentialFiles();
  private @Nullable ChannelCredentials channelCredentials;
  private @Nullable CallCredentials callCredentials;
  Consumer<ManagedChannelBuilder<?>> configure = channel -> {};

  ServiceBuilder(Address address) {
    this.address = address;
    Map<String, String> settings = address.settings();
    if (settings.containsKey("timeout")) {
      this.timeout = seconds(settings.get("timeout"));
    }
    if (settings.containsKey("stale")) {
      this.stale = Stale.parse(settings.get("stale"));
    }
  }

  private static Duration seconds(String text) {
    try {
      return Duration.ofNanos((long) (Double.parseDouble(text) * 1e9));
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(
          "timeout is '" + text + "' in the address. It must be a number of seconds.", e);
    }
  }

  /**
   * Deadline of a call including its retries; 15 seconds by default, but 3 seconds for a server on
   * this machine that has never answered.
   */
  @CanIgnoreReturnValue
  public ServiceBuilder timeout(Duration value) {
    this.timeout = Objects.requireNonNull(value, "timeout");
    return this;
  }

  /** The append from an outdated session object; {@link Stale#MERGE} by default. */
  @CanIgnoreReturnValue
  public ServiceBuilder stale(Stale value) {
    this.stale = Objects.requireNonNull(value, "stale");
    return this;
  }

  /** Maximum and delays of the attempts of a call. */
  @CanIgnoreReturnValue
  public ServiceBuilder retry(RetryPolicy value) {
    this.retry = Objects.requireNonNull(value, "retry");
    return this;
  }

  /**
   * Also sends {@code temp:} keys, for other processes that work on the same invocation. They are
   * never stored. By default they stay in this process.
   */
  @CanIgnoreReturnValue
  public ServiceBuilder shareTemp(boolean value) {
    this.shareTemp = value;
    return this;
  }

  /** How long {@link SessiondSessionService#close} waits for in-flight calls. */
  @CanIgnoreReturnValue
  public ServiceBuilder closeGrace(Duration value) {
    this.closeGrace = Objects.requireNonNull(value, "closeGrace");
    return this;
  }

  /** Emits results; {@link Schedulers#io} by default. The rest of the agent runs on it. */
  @CanIgnoreReturnValue
  public ServiceBuilder scheduler(Scheduler value) {
    this.scheduler = Objects.requireNonNull(value, "scheduler");
    return this;
  }

  /**
   * PEM file with the authority of the server's certificate, for an https address. By default the
   * environment variable {@code SESSIOND_TLS_CA} names it, and otherwise Java's own are trusted.
   */
  @CanIgnoreReturnValue
  public ServiceBuilder tlsCa(Path value) {
    files.ca(Objects.requireNonNull(value, "tlsCa"));
    return this;
  }

  /**
   * PEM files with the client's certificate and its key (PKCS #8), for a server that asks for one.
   * By default {@code SESSIOND_CLIENT_TLS_CERT} and {@code SESSIOND_CLIENT_TLS_KEY} name them.
   */
  @CanIgnoreReturnValue
  public ServiceBuilder clientCertificate(Path certificate, Path key) {
    files.clientCertificate(
        Objects.requireNonNull(certificate, "certificate"), Objects.requireNonNull(key, "key"));
    return this;
  }

  /**
   * File with a token that is sent with every call and watch. It is read again when it changes.
   * Without TLS the address must be a loopback address or a Unix socket. By default {@code
   * SESSIOND_TOKEN_FILE} names it.
   */
  @CanIgnoreReturnValue
  public ServiceBuilder tokenFile(Path value) {
    files.token(Objects.requireNonNull(value, "tokenFile"));
    return this;
  }

  /** TLS, as {@code TlsChannelCredentials}, instead of files. */
  @CanIgnoreReturnValue
  public ServiceBuilder channelCredentials(ChannelCredentials value) {
    this.channelCredentials = value;
    return this;
  }

  /** Tokens of each call, instead of a file. */
  @CanIgnoreReturnValue
  public ServiceBuilder callCredentials(CallCredentials value) {
    this.callCredentials = value;
    return this;
  }

  /**
   * Any other option of the channels: interceptors, keepalive, limits, an authority. A service
   * makes its further channels, for many watches, with the same options.
   */
  @CanIgnoreReturnValue
  public ServiceBuilder configureChannel(Consumer<ManagedChannelBuilder<?>> value) {
    this.configure = Objects.requireNonNull(value, "configure");
    return this;
  }

  Duration chosenTimeout() {
    return timeout == null ? DEFAULT_TIMEOUT : timeout;
  }

  /** How long to look for a server that has never answered. */
  Duration chosenAbsence() {
    return timeout == null && address.isLocal() ? LOCAL_ABSENCE : chosenTimeout();
  }

  ChannelCredentials chosenChannelCredentials() {
    if (channelCredentials == null) {
      files.addTlsOf(environment);
      return files.channelCredentials(address);
    }
    if (files.hasTls()) {
      throw new IllegalArgumentException(
          "channelCredentials exclude tlsCa and clientCertificate. Use one or the other.");
    }
    return channelCredentials;
  }

  @Nullable CallCredentials chosenCallCredentials() {
    if (callCredentials == null) {
      files.addTokenOf(environment);
      boolean encrypted =
          channelCredentials == null
              ? address.tls()
              : !(channelCredentials instanceof InsecureChannelCredentials);
      return files.tokenFile(address, encrypted);
    }
    if (files.hasToken()) {
      throw new IllegalArgumentException("callCredentials exclude tokenFile. Use one of them.");
    }
    return callCredentials;
  }

  /** Builds the service, which connects at its first call. */
  public SessiondSessionService build() {
    return new SessiondSessionService(this);
  }
}
