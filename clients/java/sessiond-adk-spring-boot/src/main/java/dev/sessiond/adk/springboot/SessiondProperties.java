package dev.sessiond.adk.springboot;

import dev.sessiond.adk.Stale;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * The properties {@code sessiond.*}.
 *
 * @param target the address of the server; without it nothing is configured
 * @param timeout deadline of a call including its retries, as {@code 5s}
 * @param stale {@code merge}, {@code conflict} or {@code error}
 * @param shareTemp also sends {@code temp:} keys
 * @param tlsCa PEM file with the authority of the server's certificate
 * @param clientTlsCert PEM file with the client's certificate
 * @param clientTlsKey PEM file with the private key of that certificate
 * @param tokenFile file with a token that is sent with every call
 */
@ConfigurationProperties("sessiond")
public record SessiondProperties(
    String target,
    @Nullable Duration timeout,
    @Nullable Stale stale,
    boolean shareTemp,
    @Nullable Path tlsCa,
    @Nullable Path clientTlsCert,
    @Nullable Path clientTlsKey,
    @Nullable Path tokenFile) {}
