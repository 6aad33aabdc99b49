package dev.sessiond.adk.springboot;

import com.google.adk.sessions.BaseSessionService;
import dev.sessiond.adk.ServiceBuilder;
import dev.sessiond.adk.SessiondSessionService;
import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Primary;

/**
 * Stores the sessions of a Spring Boot application in sessiond when {@code sessiond.target} is set:
 * {@code -Dsessiond.target=127.0.0.1:50051}, or {@code SESSIOND_TARGET} in the environment.
 */
@AutoConfiguration
@ConditionalOnClass(BaseSessionService.class)
@ConditionalOnProperty("sessiond.target")
@EnableConfigurationProperties(SessiondProperties.class)
public class SessiondAutoConfiguration {

  /**
   * The service. It is primary because ADK's dev server has a bean of its own without a condition.
   * Beans of {@link ChannelCredentials} (TLS) and {@link CallCredentials} (tokens) are used.
   */
  @Bean(destroyMethod = "close")
  @Primary
  public SessiondSessionService sessiondSessionService(
      SessiondProperties properties,
      ObjectProvider<ChannelCredentials> channelCredentials,
      ObjectProvider<CallCredentials> callCredentials) {
    ServiceBuilder service =
        SessiondSessionService.builder(properties.target()).shareTemp(properties.shareTemp());
    if (properties.timeout() != null) {
      service.timeout(properties.timeout());
    }
    if (properties.stale() != null) {
      service.stale(properties.stale());
    }
    if (properties.tlsCa() != null) {
      service.tlsCa(properties.tlsCa());
    }
    if (properties.clientTlsCert() != null || properties.clientTlsKey() != null) {
      service.clientCertificate(properties.clientTlsCert(), properties.clientTlsKey());
    }
    if (properties.tokenFile() != null) {
      service.tokenFile(properties.tokenFile());
    }
    channelCredentials.ifUnique(service::channelCredentials);
    callCredentials.ifUnique(service::callCredentials);
    return service.build();
  }
}
