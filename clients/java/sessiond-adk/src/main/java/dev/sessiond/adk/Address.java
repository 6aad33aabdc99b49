package dev.sessiond.adk;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * An address of a server: {@code 127.0.0.1:50051}, {@code unix:/run/sessiond.sock}, either as a
 * {@code sessiond://} URI, or {@code http://} and {@code https://} (TLS).
 *
 * @param target a gRPC target
 * @param authority the authority to send instead of the target's, or ""
 * @param tls whether the scheme asks for TLS
 * @param settings the query of a URI: {@code timeout} and {@code stale}
 */
record Address(String target, String authority, boolean tls, Map<String, String> settings) {

  static final int DEFAULT_PORT = 50051;

  private static final Set<String> SCHEMES = Set.of("sessiond", "http", "https");
  private static final Set<String> SETTINGS = Set.of("timeout", "stale");
  private static final String FORMS =
      " Use HOST:PORT, unix:/PATH, sessiond://HOST:PORT, sessiond:///PATH (a unix socket),"
          + " http://HOST:PORT or https://HOST:PORT.";

  boolean isUnix() {
    return target.startsWith("unix:");
  }

  /** Whether calls stay on this machine: a Unix socket or a loopback address. */
  boolean isLocal() {
    String place = place();
    String host = place.substring(0, Math.max(place.lastIndexOf(':'), 0));
    // A name other than localhost is not looked up: it can change its address.
    return isUnix()
        || host.equals("localhost")
        || host.matches("127(\\.[0-9]{1,3}){3}")
        || host.matches("\\[[0:]*:0*1]");
  }

  /** The target for messages. */
  String place() {
    return isUnix() ? target : decode(target.substring("dns:///".length()));
  }

  /** Parses an address. The exception's message lists the valid forms. */
  static Address parse(String address) {
    String text = address.strip();
    if (text.startsWith("unix:")) {
      String path = text.substring("unix:".length());
      // gRPC accepts unix:/path, unix:///path and unix:relative.
      return unix(path.startsWith("///") ? path.substring(2) : path, text, Map.of());
    }
    int scheme = text.indexOf("://");
    if (scheme < 0) {
      return tcp(text, text, false, Map.of());
    }
    return parseUri(text.substring(0, scheme), text.substring(scheme + "://".length()), text);
  }

  private static Address parseUri(String scheme, String rest, String text) {
    if (!SCHEMES.contains(scheme)) {
      throw invalid(text, "an unknown scheme");
    }
    if (rest.contains("#") || rest.contains("@")) {
      throw invalid(text, "a user or a fragment");
    }
    int question = rest.indexOf('?');
    Map<String, String> settings =
        question < 0 ? Map.of() : parseQuery(rest.substring(question + 1), text);
    String place = question < 0 ? rest : rest.substring(0, question);
    return scheme.equals("sessiond") && place.startsWith("/")
        ? unix(decode(place), text, settings)
        : tcp(withoutSlash(place), text, scheme.equals("https"), settings);
  }

  private static Map<String, String> parseQuery(String query, String text) {
    Map<String, String> settings = new LinkedHashMap<>();
    for (String pair : query.split("&", -1)) {
      int equals = pair.indexOf('=');
      if (equals < 0 || !SETTINGS.contains(pair.substring(0, equals))) {
        throw new IllegalArgumentException(
            "'" + text + "' has the unknown setting '" + pair + "'. Use timeout=… or stale=….");
      }
      settings.put(pair.substring(0, equals), decode(pair.substring(equals + 1)));
    }
    return settings;
  }

  private static String withoutSlash(String place) {
    return place.endsWith("/") ? place.substring(0, place.length() - 1) : place;
  }

  private static String decode(String text) {
    // URLDecoder also turns "+" into a space, which a URI's path does not.
    return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
  }

  private static Address unix(String path, String text, Map<String, String> settings) {
    if (path.replace("/", "").isEmpty()) {
      throw invalid(text, "no socket path");
    }
    // gRPC would send the path as the authority, which the server's HTTP/2 rejects as malformed.
    return new Address("unix:" + path, "localhost", false, settings);
  }

  /** {@code place} with a port. An IPv6 address needs brackets. */
  private static Address tcp(String place, String text, boolean tls, Map<String, String> settings) {
    int colon = place.lastIndexOf(':');
    boolean hasPort = colon >= 0 && !place.endsWith("]");
    String host = hasPort ? place.substring(0, colon) : place;
    String port = hasPort ? place.substring(colon + 1) : Integer.toString(DEFAULT_PORT);
    boolean bracketed = host.startsWith("[") && host.endsWith("]");
    if (host.isEmpty()
        || host.chars().anyMatch(c -> c == '/' || Character.isWhitespace(c))
        || (host.contains(":") && !bracketed)) {
      throw invalid(text, "no valid host");
    }
    if (!port.matches("[0-9]{1,5}")
        || Integer.parseInt(port) < 1
        || Integer.parseInt(port) > 65535) {
      throw invalid(text, "the port '" + port + "'");
    }
    // java.net.URI, by which gRPC reads targets, has no brackets in a path.
    String escaped = host.replace("[", "%5B").replace("]", "%5D");
    return new Address("dns:///" + escaped + ":" + port, "", tls, settings);
  }

  private static IllegalArgumentException invalid(String text, String fault) {
    return new IllegalArgumentException("'" + text + "' has " + fault + "." + FORMS);
  }
}
