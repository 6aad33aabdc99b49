/** Reads the body of an event, in the forms of all ADKs (docs/bodies.md). */

import type {Event} from './contract.js';
import {Raw, objectOf, tryJson, writeJson, type Json, type JsonObject} from './json.js';

export interface Call {
  id: string;
  name: string;
  args: Json;
  /** Its result comes after the invocation. */
  isLong: boolean;
}
export interface Result {
  id: string;
  name: string;
  response: Json;
}
export type Part =
  | {kind: 'text' | 'thought'; text: string}
  | ({kind: 'call'} & Call)
  | ({kind: 'result'} & Result)
  | {kind: 'data'; mimeType: string; base64: string}
  | {kind: 'file'; mimeType: string; uri: string}
  | {kind: 'other'; json: Json};

export interface Body {
  parts: Part[];
  error: string;
  /** `412 tokens`, `transfers to logistics`: what people look for beside the parts. */
  facts: string[];
}

/** Members whose value is data of the application: its names stay as they are. */
const OPAQUE = new Set([
  ...['agentState', 'args', 'artifactDelta', 'customMetadata', 'output', 'partialArgs'],
  ...['response', 'result', 'stateDelta'],
]);
/** Members that say what a body without ADK's members says. */
const TEXTS = ['text', 'message', 'content'];
/** How many events a result may be away from its call. */
const REACH = 40;

/** The JSON with ADK's names in camelCase. Of two spellings, the canonical one counts. */
export function camelCase(json: Json): Json {
  if (Array.isArray(json)) {
    return json.map(camelCase);
  }
  if (!(json instanceof Map)) {
    return json;
  }
  const renamed: JsonObject = new Map();
  for (const [given, value] of json) {
    const name = given.replace(/(?<!^)_+(.?)/g, (_, letter: string) => letter.toUpperCase());
    if (name === given || !json.has(name)) {
      renamed.set(name, OPAQUE.has(name) ? value : camelCase(value));
    }
  }
  return renamed;
}

/** Reads a body. Never fails: what it cannot read is left to the raw JSON. */
export function readBody(text: string | undefined): Body {
  const body = objectOf(camelCase(tryJson(text) ?? null));
  const actions = objectOf(body.get('actions'));
  const long = new Set(listAt(body, 'longRunningToolIds').map(textOf));
  const content = listAt(objectOf(body.get('content')), 'parts');
  const parts = [...content.map(part => readPart(part, long)), ...summariesOf(body, actions)];
  const citations = objectOf(body.get('citationMetadata'));
  for (const json of ['citations', 'citationSources'].flatMap(name => listAt(citations, name))) {
    const uri = textAt(json, 'uri') || textAt(json, 'title');
    parts.push({kind: 'file', mimeType: 'citation', uri});
  }
  const error = ['errorCode', 'errorMessage'].map(name => textAt(body, name)).filter(Boolean);
  const facts = factsOf(body, actions);
  if (parts.length + error.length + facts.length === 0 && body.size > 0) {
    const said = TEXTS.map(name => body.get(name)).filter(value => typeof value === 'string');
    parts.push(...said.map(text => ({kind: 'text', text}) as const), {kind: 'other', json: body});
  }
  return {parts, error: error.join(': '), facts};
}

function readPart(part: Json, long: Set<string>): Part {
  const json = objectOf(part);
  const [text, thinking] = [json.get('text'), json.get('thinking')];
  if (typeof thinking === 'string') {
    return {kind: 'thought', text: thinking};
  }
  if (typeof text === 'string') {
    return {kind: json.get('thought') === true ? 'thought' : 'text', text};
  }
  // ADK for Rust writes the members of a part without one around them.
  const call = json.has('name') && json.has('args') ? json : json.get('functionCall');
  if (call instanceof Map) {
    const [id, args] = [textAt(call, 'id'), call.get('args') ?? new Map<string, Json>()];
    return {kind: 'call', id, name: textAt(call, 'name'), args, isLong: long.has(id)};
  }
  const result = json.get('functionResponse');
  if (result instanceof Map) {
    const id = textAt(result, 'id') || textAt(json, 'id');
    const response = result.get('response') ?? null;
    // ADK for Python writes a value that is no object as {"result": value}.
    const [only] = response instanceof Map && response.size === 1 ? response : [];
    const value = only?.[0] === 'result' ? only[1] : response;
    return {kind: 'result', id, name: textAt(result, 'name'), response: value};
  }
  return readFile(json) ?? {kind: 'other', json: part};
}

function readFile(json: JsonObject): Part | undefined {
  const data = objectOf(json.get('inlineData') ?? json);
  const bytes = data.get('data');
  if (bytes !== undefined) {
    // ADK for Rust writes bytes as numbers.
    const base64 = Array.isArray(bytes)
      ? btoa(bytes.map(byte => String.fromCharCode(Number(textOf(byte)) & 255)).join(''))
      : textOf(bytes).replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, '');
    return {kind: 'data', mimeType: textAt(data, 'mimeType'), base64};
  }
  const file = objectOf(json.get('fileData') ?? json);
  const uri = textAt(file, 'fileUri');
  return uri ? {kind: 'file', mimeType: textAt(file, 'mimeType'), uri} : undefined;
}

/** The texts of a compaction. ADK for TypeScript has it in other members. */
function summariesOf(body: JsonObject, actions: JsonObject): Part[] {
  const content = objectOf(actions.get('compaction')).get('compactedContent');
  const parts = listAt(objectOf(content), 'parts').map(part => readPart(part, new Set()));
  const texts = parts.map(part => ('text' in part ? part.text : ''));
  const own = body.get('isCompacted') === true ? textAt(body, 'compactedContent') : '';
  return [...texts, own].filter(Boolean).map(text => ({kind: 'text', text: `Summary: ${text}`}));
}

function factsOf(body: JsonObject, actions: JsonObject): string[] {
  const routes = ['route', 'routes'].flatMap(name => [actions.get(name), body.get(name)]);
  const route = routes.find(value => value !== undefined && value !== null);
  // ADK for Rust writes `MaxTokens`.
  const finish = textAt(body, 'finishReason').replace(/(?<=[a-z])(?=[A-Z])/g, '_');
  const tokens = textAt(objectOf(body.get('usageMetadata')), 'totalTokenCount');
  const facts = [
    ['transfers to', textAt(actions, 'transferToAgent')],
    ['route', Array.isArray(route) ? route.map(textOf).join(', ') : textOf(route)],
    ...[...objectOf(actions.get('artifactDelta'))].map(([name, version]) => {
      return ['artifact', `${name} v${textOf(version)}`];
    }),
    ['finished by', finish.toUpperCase().replace(/^STOP$/, '')],
    ['', actions.get('escalate') === true ? 'escalates' : ''],
    ['', body.get('interrupted') === true ? 'interrupted' : ''],
    ['', tokens && `${tokens} tokens`],
    ['', textAt(body, 'modelVersion')],
  ];
  return facts.filter(([, value]) => value).map(fact => fact.join(' ').trim());
}

/** The first words of a body, for a list. */
export function summaryOf({parts, error}: Body): string {
  const texts = parts.map(part => {
    switch (part.kind) {
      case 'text':
        return part.text;
      case 'call':
        return `${part.name}(…)`;
      case 'result':
        return `${part.name} → ${writeJson(part.response).slice(0, 200)}`;
      case 'other':
        return writeJson(part.json).slice(0, 200);
      default:
        return 'mimeType' in part ? part.mimeType : '';
    }
  });
  return texts.find(Boolean) || error;
}

const bodies = new WeakMap<Event, Body>();

/** The body of an event that is shown again and again. */
export function bodyOf(event: Event): Body {
  const body = bodies.get(event) ?? readBody(event.bodyJson);
  bodies.set(event, body);
  return body;
}

/** Events by sequence, as far as they are at hand. */
type Events = {get(sequence: number): Event | undefined};

/** The result of a call, in the events behind it. */
export function resultOf(events: Events, from: number, call: Call) {
  return near(events, from, 1, part => part.kind === 'result' && part, call);
}

/** The call that a result belongs to, in the events before it. */
export function callOf(events: Events, from: number, result: Result) {
  return near(events, from, -1, part => part.kind === 'call' && part, result);
}

/** The nearest part with the same id. Older ADKs have none: the name counts in an invocation. */
function near<T extends Call | Result>(
  events: Events,
  from: number,
  step: 1 | -1,
  select: (part: Part) => T | false,
  {id, name}: Call | Result,
) {
  const invocation = events.get(from)?.invocationId;
  for (let sequence = from; Math.abs(sequence - from) <= REACH; sequence += step) {
    const event = events.get(sequence);
    for (const part of event ? bodyOf(event).parts.map(select) : []) {
      const isSame = part && part.name === name && event?.invocationId === invocation;
      if (part && (id || part.id ? part.id === id : isSame)) {
        return {part, sequence};
      }
    }
  }
  return undefined;
}

function listAt(json: JsonObject, name: string): Json[] {
  const value = json.get(name);
  return Array.isArray(value) ? value : [];
}

function textAt(json: Json, name: string): string {
  return json instanceof Map ? textOf(json.get(name)) : '';
}

function textOf(json: Json | undefined): string {
  if (typeof json === 'string') {
    return json;
  }
  return json instanceof Raw ? json.text : json ? writeJson(json) : '';
}
