package dev.sessiond.adk.springboot;

import com.google.adk.agents.LlmAgent;
import com.google.adk.models.BaseLlm;
import com.google.adk.models.BaseLlmConnection;
import com.google.adk.models.LlmRequest;
import com.google.adk.models.LlmResponse;
import com.google.adk.web.AdkWebServer;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import io.reactivex.rxjava3.core.Flowable;
import java.util.Optional;

/** ADK's dev server with one agent, as a program of its own: {@code -Dsessiond.target=…}. */
public final class DevServer {

  private DevServer() {}

  /** Starts the server. */
  public static void main(String[] args) {
    LlmAgent agent =
        LlmAgent.builder()
            .name("counter")
            .model(new Echo())
            .afterAgentCallbackSync(
                context -> {
                  Object turns = context.state().getOrDefault("user:turns", 0);
                  context.state().put("user:turns", ((Number) turns).intValue() + 1);
                  return Optional.empty();
                })
            .build();
    AdkWebServer.start(agent);
  }

  /** Answers with how many messages it was shown. */
  private static final class Echo extends BaseLlm {
    Echo() {
      super("echo");
    }

    @Override
    public Flowable<LlmResponse> generateContent(LlmRequest request, boolean stream) {
      String text = "messages: " + request.contents().size();
      Content content = Content.builder().role("model").parts(Part.fromText(text)).build();
      return Flowable.just(LlmResponse.builder().content(content).build());
    }

    @Override
    public BaseLlmConnection connect(LlmRequest request) {
      throw new UnsupportedOperationException();
    }
  }
}
