package dev.sessiond.adk;

import com.google.adk.agents.LlmAgent;
import com.google.adk.events.Event;
import com.google.adk.models.LlmResponse;
import com.google.adk.runner.Runner;
import com.google.adk.sessions.BaseSessionService;
import com.google.adk.sessions.State;
import com.google.adk.testing.TestLlm;
import com.google.adk.testing.TestUtils;
import com.google.adk.tools.Annotations.Schema;
import com.google.adk.tools.FunctionTool;
import com.google.adk.tools.ToolContext;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** An agent with a scripted model, a tool and callbacks that write state of every scope. */
public final class Conversation {

  private final Runner runner;

  Conversation(BaseSessionService service) {
    List<LlmResponse> answers = new ArrayList<>();
    for (int turn = 0; turn < 10; turn++) {
      Part call = Part.fromFunctionCall("book", Map.of("city", "Oslo" + turn));
      answers.add(
          LlmResponse.builder()
              .content(Content.builder().role("model").parts(call).build())
              .build());
      answers.add(TestUtils.createTextLlmResponse("booked " + turn));
    }
    LlmAgent agent =
        LlmAgent.builder()
            .name("booker")
            .model(new TestLlm(answers))
            .instruction("Book for {user:name?}.")
            .outputKey("last_answer")
            .tools(FunctionTool.create(Conversation.class, "book"))
            .beforeAgentCallbackSync(
                context -> {
                  context.state().put("callback", "before");
                  context.state().put("temp:from_callback", 1);
                  return Optional.empty();
                })
            .afterAgentCallbackSync(
                context -> {
                  context.state().put("user:turns_done", context.invocationId().length() > 0);
                  return Optional.empty();
                })
            .build();
    this.runner =
        Runner.builder().agent(agent).appName(ServerTest.APP).sessionService(service).build();
  }

  @Schema(name = "book", description = "Books a trip.")
  public static Map<String, Object> book(
      @Schema(name = "city", description = "The city.") String city,
      @Schema(name = "toolContext") ToolContext toolContext) {
    State state = toolContext.state();
    state.put("city", city);
    state.put("app:bookings", List.of(city));
    state.put("user:name", "Alice");
    state.put("temp:tool", Map.of("raw", city));
    state.remove("draft");
    // The callback's temp: key is visible for the rest of the invocation.
    return Map.of("status", "ok", "price", 12.5, "temp", state.get("temp:from_callback"));
  }

  /** Runs one turn and returns its events. */
  List<Event> turn(String sessionId, String text) {
    return runner
        .runAsync(ServerTest.USER, sessionId, Content.fromParts(Part.fromText(text)))
        .toList()
        .blockingGet();
  }

  /** The event without what every run makes anew. */
  static Map<String, Object> comparable(Event event) {
    Map<String, Object> fields = new HashMap<>();
    fields.put("author", event.author());
    fields.put("content", event.content().map(c -> c.toJson().replaceAll("\"id\":\"[^\"]*\"", "")));
    Map<String, Object> delta = new HashMap<>(event.actions().stateDelta());
    delta.keySet().removeIf(Messages::isTemp);
    fields.put("delta", delta);
    fields.put("branch", event.branch());
    fields.put("turnComplete", event.turnComplete());
    fields.put("actions", event.actions().toBuilder().stateDelta(Map.of()).build());
    return fields;
  }
}
