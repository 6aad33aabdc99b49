/** A model that answers from a script. */

import {BaseLlm, type LlmRequest, type LlmResponse} from '@google/adk';

export function said(text: string, thought?: string): LlmResponse {
  const thoughts = thought ? [{text: thought, thought: true}] : [];
  return {content: {role: 'model', parts: [...thoughts, {text}]}};
}

export function called(
  ...calls: [name: string, args: Record<string, unknown>][]
): LlmResponse {
  const parts = calls.map(([name, args]) => ({functionCall: {name, args}}));
  return {
    content: {role: 'model', parts},
    usageMetadata: {promptTokenCount: 3, totalTokenCount: 7},
  };
}

export class ScriptedModel extends BaseLlm {
  /** What it was asked: the instructions, and the texts of the conversation. */
  readonly asked: {instruction: unknown; texts: string[]}[] = [];
  readonly #responses: LlmResponse[] = [];

  constructor(...responses: LlmResponse[]) {
    super({model: 'scripted'});
    this.script(...responses);
  }

  script(...responses: LlmResponse[]): void {
    this.#responses.push(...responses);
  }

  override async *generateContentAsync(
    request: LlmRequest,
  ): AsyncGenerator<LlmResponse, void> {
    const texts = request.contents.flatMap(({parts = []}) =>
      parts.map(({text}) => text ?? ''),
    );
    this.asked.push({instruction: request.config?.systemInstruction, texts});
    const response = this.#responses.shift();
    if (!response) {
      throw new Error('The script of the model is over.');
    }
    yield structuredClone(response);
  }

  override async connect(): Promise<never> {
    throw new Error('A scripted model has no live connection.');
  }
}
