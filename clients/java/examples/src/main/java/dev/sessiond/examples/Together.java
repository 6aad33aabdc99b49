package dev.sessiond.examples;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.adk.agents.LlmAgent;
import com.google.adk.events.Event;
import com.google.adk.events.EventCompaction;
import com.google.adk.runner.Runner;
import com.google.adk.sessions.Session;
import com.google.adk.sessions.State;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import dev.sessiond.adk.Delta;
import dev.sessiond.adk.SessiondSessionService;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Single;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Works on a session that agents in other languages use as well: {@code Together ADDRESS APP USER
 * SESSION COMMAND [ARGS]}.
 *
 * <ul>
 *   <li>{@code turn TEXT} runs a turn of an agent, which sets {@code java:turn}.
 *   <li>{@code increment N} increments {@code user:turns} N times.
 *   <li>{@code dump} prints events and state as JSON.
 *   <li>{@code bodies} prints what this ADK reads in the bodies of the events.
 *   <li>{@code compactions} prints the compactions that this ADK reads.
 *   <li>{@code put KEY JSON} sets a key.
 * </ul>
 */
public final class Together {

  private static final String LANGUAGE = "java";

  /** Increments that are in flight at once. */
  private static final int CONCURRENCY = 4;

  private static final ObjectMapper MAPPER = new ObjectMapper();

  private final SessiondSessionService service;
  private final String app;
  private final Session session;

  private Together(SessiondSessionService service, String app, Session session) {
    this.service = service;
    this.app = app;
    this.session = session;
  }

  /** Runs one command. An exception ends the program with the exit code 1. */
  public static void main(String[] args) throws JsonProcessingException {
    if (args.length < 5) {
      System.err.println("usage: Together ADDRESS APP USER SESSION COMMAND [ARGS]");
      System.exit(2);
    }
    try (SessiondSessionService service = new SessiondSessionService(args[0])) {
      Session session =
          service
              .getSession(args[1], args[2], args[3], Optional.empty())
              .switchIfEmpty(
                  Single.error(() -> new IllegalArgumentException("No session " + args[3])))
              .blockingGet();
      Together together = new Together(service, args[1], session);
      switch (args[4]) {
        case "turn" -> together.turn(args[5]);
        case "increment" -> together.increment(Integer.parseInt(args[5]));
        case "dump" -> together.dump();
        case "bodies" -> together.bodies();
        case "compactions" -> together.compactions();
        case "put" -> together.put(args[5], args[6]);
        default -> throw new IllegalArgumentException("Unknown command " + args[4]);
      }
    }
  }

  private void turn(String text) {
    LlmAgent agent =
        LlmAgent.builder()
            .name(LANGUAGE)
            .model(new ScriptedLlm(heard -> LANGUAGE + " heard " + heard))
            .beforeAgentCallbackSync(
                context -> {
                  context.state().put(LANGUAGE + ":turn", text);
                  return Optional.empty();
                })
            .build();
    Runner.builder()
        .agent(agent)
        .appName(app)
        .sessionService(service)
        .build()
        .runAsync(session.userId(), session.id(), Content.fromParts(Part.fromText(text)))
        .blockingSubscribe(event -> {});
  }

  private void increment(int count) {
    Flowable.range(0, count)
        .flatMapSingle(
            i -> service.increment(session, "user:turns", 1), /* delayErrors= */ false, CONCURRENCY)
        .blockingSubscribe(sum -> {});
  }

  private void put(String key, String json) throws JsonProcessingException {
    Object value = MAPPER.readValue(json, Object.class);
    service
        .change(session, Delta.of(Map.of(key, value == null ? State.REMOVED : value)))
        .blockingGet();
  }

  private void dump() throws JsonProcessingException {
    List<Map<String, Object>> events = new ArrayList<>();
    for (Event event : session.events()) {
      Map<String, Object> fields = new LinkedHashMap<>();
      fields.put("id", event.id());
      fields.put("author", event.author());
      fields.put("text", text(event));
      events.add(fields);
    }
    Map<String, Object> all = new LinkedHashMap<>();
    all.put("events", events);
    all.put("state", session.state());
    print(all);
  }

  /** Prints what ADK's own methods read in the bodies. */
  private void bodies() throws JsonProcessingException {
    List<Map<String, Object>> read = new ArrayList<>();
    for (Event event : session.events()) {
      Map<String, Object> fields = new LinkedHashMap<>();
      fields.put("author", event.author());
      fields.put("role", event.content().flatMap(Content::role).orElse(null));
      fields.put("text", text(event));
      fields.put(
          "calls",
          event.functionCalls().stream()
              .map(call -> item(call.id(), call.name(), "args", call.args()))
              .toList());
      fields.put(
          "responses",
          event.functionResponses().stream()
              .map(result -> item(result.id(), result.name(), "response", result.response()))
              .toList());
      fields.put(
          "tokens", event.usageMetadata().flatMap(usage -> usage.totalTokenCount()).orElse(0));
      fields.put("artifacts", event.actions().artifactDelta());
      fields.put("final", event.finalResponse());
      read.add(fields);
    }
    print(read);
  }

  /** Prints the compactions that ADK reads, in milliseconds, and what is beside them. */
  private void compactions() throws JsonProcessingException {
    List<Map<String, Object>> read = new ArrayList<>();
    for (Event event : session.events()) {
      Optional<EventCompaction> compaction = event.actions().compaction();
      Map<String, Object> fields = new LinkedHashMap<>();
      fields.put("start", compaction.map(EventCompaction::startTimestamp).orElse(null));
      fields.put("end", compaction.map(EventCompaction::endTimestamp).orElse(null));
      fields.put("text", compaction.map(found -> text(found.compactedContent())).orElse(null));
      fields.put("transfer", event.actions().transferToAgent().orElse(null));
      fields.put("artifacts", event.actions().artifactDelta());
      read.add(fields);
    }
    print(read);
  }

  private static Map<String, Object> item(
      Optional<String> id,
      Optional<String> name,
      String member,
      Optional<Map<String, Object>> value) {
    Map<String, Object> item = new LinkedHashMap<>();
    item.put("id", id.orElse(null));
    item.put("name", name.orElse(null));
    item.put(member, value.orElse(null));
    return item;
  }

  private static void print(Object value) throws JsonProcessingException {
    new PrintStream(System.out, true, StandardCharsets.UTF_8)
        .println(MAPPER.writeValueAsString(value));
  }

  private static String text(Event event) {
    return event.content().map(Together::text).orElse("");
  }

  private static String text(Content content) {
    StringBuilder text = new StringBuilder();
    content.parts().orElse(List.of()).stream()
        .flatMap(part -> part.text().stream())
        .forEach(text::append);
    return text.toString();
  }
}
