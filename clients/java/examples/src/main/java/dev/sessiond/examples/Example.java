package dev.sessiond.examples;

import com.google.adk.agents.LlmAgent;
import com.google.adk.events.Event;
import com.google.adk.runner.Runner;
import com.google.adk.sessions.Session;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import dev.sessiond.adk.SessiondSessionService;
import java.util.Map;
import java.util.Optional;

/** Two turns of an agent whose sessions are stored in sessiond: {@code Example ADDRESS}. */
public final class Example {

  private Example() {}

  /** Runs the example against the server at the address. */
  public static void main(String[] args) {
    try (SessiondSessionService service = new SessiondSessionService(args[0])) {
      LlmAgent agent =
          LlmAgent.builder()
              .name("greeter")
              .model(new ScriptedLlm(text -> "You said: " + text))
              .outputKey("last_answer")
              .afterAgentCallbackSync(
                  context -> {
                    context.state().put("user:seen", true);
                    return Optional.empty();
                  })
              .build();
      Runner runner =
          Runner.builder().agent(agent).appName("example").sessionService(service).build();

      Session session =
          service.createSession("example", "alice", Map.of("topic", "weather"), null).blockingGet();
      for (String text : new String[] {"Will it rain?", "And tomorrow?"}) {
        runner
            .runAsync("alice", session.id(), Content.fromParts(Part.fromText(text)))
            .map(Event::stringifyContent)
            .blockingForEach(System.out::println);
      }
      service.increment(session, "user:turns", 2).blockingGet();

      Session stored =
          service.getSession("example", "alice", session.id(), Optional.empty()).blockingGet();
      System.out.println(stored.events().size() + " events, state " + stored.state().entrySet());
    }
  }
}
