package dev.sessiond.examples;

import com.google.adk.models.BaseLlm;
import com.google.adk.models.BaseLlmConnection;
import com.google.adk.models.LlmRequest;
import com.google.adk.models.LlmResponse;
import com.google.common.collect.Iterables;
import com.google.genai.types.Content;
import com.google.genai.types.Part;
import io.reactivex.rxjava3.core.Flowable;
import java.util.List;
import java.util.function.UnaryOperator;

/** A model that needs no network: it answers the last text by a function. */
final class ScriptedLlm extends BaseLlm {

  private final UnaryOperator<String> answer;

  ScriptedLlm(UnaryOperator<String> answer) {
    super("scripted");
    this.answer = answer;
  }

  @Override
  public Flowable<LlmResponse> generateContent(LlmRequest request, boolean stream) {
    List<Part> parts = Iterables.getLast(request.contents()).parts().orElse(List.of());
    String text = parts.stream().flatMap(part -> part.text().stream()).findFirst().orElse("");
    Content content =
        Content.builder().role("model").parts(Part.fromText(answer.apply(text))).build();
    return Flowable.just(LlmResponse.builder().content(content).build());
  }

  @Override
  public BaseLlmConnection connect(LlmRequest request) {
    throw new UnsupportedOperationException("The scripted model has no live connection.");
  }
}
