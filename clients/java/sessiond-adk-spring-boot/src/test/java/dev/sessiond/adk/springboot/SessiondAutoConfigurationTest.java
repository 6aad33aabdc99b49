package dev.sessiond.adk.springboot;

import static com.google.common.truth.Truth.assertThat;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.adk.sessions.BaseSessionService;
import com.google.adk.sessions.InMemorySessionService;
import com.google.common.base.Throwables;
import dev.sessiond.adk.SessiondSessionService;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

final class SessiondAutoConfigurationTest {

  /** An application with a session service of its own, as the dev server has one. */
  @Configuration
  @EnableAutoConfiguration
  static class Application {
    @Bean
    BaseSessionService sessionService() {
      return new InMemorySessionService();
    }
  }

  private static ConfigurableApplicationContext start(Map<String, Object> properties) {
    return new SpringApplicationBuilder(Application.class)
        .web(WebApplicationType.NONE)
        .properties(properties)
        .run();
  }

  @Test
  void aTargetReplacesTheServiceOfTheApplication() {
    try (ConfigurableApplicationContext context =
        start(
            Map.of(
                "sessiond.target", "127.0.0.1:1",
                "sessiond.stale", "conflict",
                "sessiond.timeout", "5s",
                "sessiond.share-temp", "true"))) {
      assertThat(context.getBean(BaseSessionService.class))
          .isInstanceOf(SessiondSessionService.class);
      SessiondProperties properties = context.getBean(SessiondProperties.class);
      assertThat(properties.timeout()).isEqualTo(java.time.Duration.ofSeconds(5));
      assertThat(properties.stale()).isEqualTo(dev.sessiond.adk.Stale.CONFLICT);
      assertThat(properties.shareTemp()).isTrue();
    }
  }

  @Test
  void withoutATargetNothingIsConfigured() {
    try (ConfigurableApplicationContext context = start(Map.of())) {
      assertThat(context.getBean(BaseSessionService.class))
          .isInstanceOf(InMemorySessionService.class);
      assertThat(context.getBeanNamesForType(SessiondSessionService.class)).isEmpty();
    }
  }

  @Test
  void filesOfPropertiesAreUsed() {
    for (String property :
        List.of("sessiond.tls-ca", "sessiond.client-tls-cert", "sessiond.token-file")) {
      Map<String, Object> properties =
          Map.of("sessiond.target", "https://127.0.0.1:1", property, "/missing/" + property);
      RuntimeException refused =
          assertThrows(RuntimeException.class, () -> start(properties).close());
      Throwable cause = Throwables.getRootCause(refused);
      // A certificate needs its key.
      assertThat(cause.toString())
          .contains(property.equals("sessiond.client-tls-cert") ? "key" : "/missing/" + property);
    }
  }

  @Test
  void aWrongTargetStopsTheStart() {
    assertThrows(RuntimeException.class, () -> start(Map.of("sessiond.target", "host:0")).close());
  }
}
