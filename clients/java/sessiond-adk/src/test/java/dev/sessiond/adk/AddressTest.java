package dev.sessiond.adk;

import static com.google.common.truth.Truth.assertThat;
import static com.google.common.truth.Truth.assertWithMessage;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class AddressTest {

  @ParameterizedTest
  @CsvSource({
    "127.0.0.1:50051, dns:///127.0.0.1:50051, false",
    "localhost, dns:///localhost:50051, false",
    "' host:1 ', dns:///host:1, false",
    "[::1], dns:///%5B::1%5D:50051, false",
    "[::1]:7, dns:///%5B::1%5D:7, false",
    "sessiond://host:1, dns:///host:1, false",
    "sessiond://host:1/, dns:///host:1, false",
    "sessiond://host, dns:///host:50051, false",
    "sessiond:///run/s.sock, unix:/run/s.sock, false",
    "sessiond:///run/a%20b+c, unix:/run/a b+c, false",
    "unix:/run/s.sock, unix:/run/s.sock, false",
    "unix:///run/s.sock, unix:/run/s.sock, false",
    "unix:s.sock, unix:s.sock, false",
    "http://host:1, dns:///host:1, false",
    "https://host:1, dns:///host:1, true",
  })
  void formsOfAddresses(String text, String target, boolean tls) {
    Address address = Address.parse(text);
    assertThat(address.target()).isEqualTo(target);
    assertThat(address.tls()).isEqualTo(tls);
    assertThat(address.authority()).isEqualTo(address.isUnix() ? "localhost" : "");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        ":1",
        "host:",
        "host:0",
        "host:65536",
        "host:x",
        "::1",
        "a b:1",
        "host/x:1",
        "unix:",
        "unix:///",
        "sessiond://",
        "sessiond:///",
        "sessiond://host:1/x",
        "sessiond://u@host:1",
        "sessiond://host:1#f",
        "redis://host:1",
        "http://host:1/x",
        "http:///run/s.sock",
        "https://u@host:1",
        "https://host?color=red",
        "sessiond://host?color=red",
        "sessiond://host?timeout",
        "sessiond://host?timeout=x",
        "sessiond://host?stale=x",
        "sessiond://host?timeout=0",
        "sessiond://host?timeout=-1"
      })
  void otherTextsAreRefused(String text) {
    assertThrows(IllegalArgumentException.class, () -> new SessiondSessionService(text).close());
  }

  @ParameterizedTest
  @ValueSource(strings = {"sessiond", "http", "https"})
  void aUriHasSettings(String scheme) {
    Address address = Address.parse(scheme + "://host:1?timeout=0.5&stale=conflict");
    assertThat(address.target()).isEqualTo("dns:///host:1");
    assertThat(address.tls()).isEqualTo(scheme.equals("https"));
    assertThat(address.settings()).containsExactly("timeout", "0.5", "stale", "conflict");
  }

  @Test
  void delaysDoubleWithJitterUpToALimit() {
    RetryPolicy policy = RetryPolicy.DEFAULT;
    long[] longest = {50, 100, 200, 400, 800, 1000, 1000};
    for (int failed = 1; failed <= longest.length; failed++) {
      for (int i = 0; i < 100; i++) {
        long millis = policy.delay(failed, null).toNanos() / 1000;
        assertWithMessage("after " + failed).that(millis).isAtLeast(longest[failed - 1] * 500);
        assertWithMessage("after " + failed).that(millis).isAtMost(longest[failed - 1] * 1000);
      }
    }
    assertThat(policy.delay(1, Duration.ofSeconds(9))).isEqualTo(Duration.ofSeconds(9));
    assertThat(policy.delay(Integer.MAX_VALUE, null)).isAtMost(Duration.ofSeconds(1));
    assertThrows(
        IllegalArgumentException.class, () -> new RetryPolicy(0, Duration.ZERO, Duration.ZERO));
    assertThat(policy.attempts()).isEqualTo(Integer.MAX_VALUE);
    assertThrows(
        IllegalArgumentException.class,
        () -> new RetryPolicy(Integer.MAX_VALUE, Duration.ZERO, Duration.ofSeconds(1)));
  }
}
