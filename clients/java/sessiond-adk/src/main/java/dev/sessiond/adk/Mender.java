package dev.sessiond.adk;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Replaces halves of surrogate pairs in the values and the body of one request by U+FFFD, as UTF-8
 * cannot encode them. A text that was cut within an emoji must not lose a whole turn.
 */
final class Mender {

  private static final Logger logger = LoggerFactory.getLogger(Mender.class);
  private static final Pattern HALF_PAIR = Pattern.compile("\\p{Cs}");

  private final Set<String> mended = new LinkedHashSet<>();

  /** The text with whole characters only; {@code name} stands for it in the warning. */
  String mend(String name, String text) {
    if (Json.isUnicode(text)) {
      return text;
    }
    mended.add(name);
    return HALF_PAIR.matcher(text).replaceAll("\uFFFD");
  }

  /** Logs one warning if anything was replaced in the request that {@code what} names. */
  void warn(String what) {
    if (!mended.isEmpty()) {
      logger.warn(
          "{}: replaced half a surrogate pair by U+FFFD in {}", what, String.join(", ", mended));
    }
  }
}
