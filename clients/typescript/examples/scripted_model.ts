/** A model that needs no network: it answers what a function says. */

import {BaseLlm, type LlmRequest, type LlmResponse} from '@google/adk';

export class ScriptedModel extends BaseLlm {
  readonly #answer: (text: string) => string;

  /** @param answer the answer to the newest text of the conversation. */
  constructor(answer: (text: string) => string) {
    super({model: 'scripted'});
    this.#answer = answer;
  }

  override async *generateContentAsync(
    request: LlmRequest,
  ): AsyncGenerator<LlmResponse, void> {
    const texts = request.contents.flatMap(({parts = []}) =>
      parts.flatMap(({text}) => text ?? []),
    );
    const text = this.#answer(texts.at(-1) ?? '');
    yield {content: {role: 'model', parts: [{text}]}};
  }

  override async connect(): Promise<never> {
    throw new Error('A scripted model has no live connection.');
  }
}
