package dev.sessiond.adk;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** What a class logs until this is closed. */
final class Logged extends Handler implements AutoCloseable {

  private final List<String> messages = Collections.synchronizedList(new ArrayList<>());
  private final Logger logger;

  Logged(Class<?> source) {
    logger = Logger.getLogger(source.getName());
    logger.addHandler(this);
  }

  List<String> messages() {
    return List.copyOf(messages);
  }

  @Override
  public void publish(LogRecord record) {
    messages.add(record.getMessage());
  }

  @Override
  public void flush() {}

  @Override
  public void close() {
    logger.removeHandler(this);
  }
}
