/** What the body of an event says: docs/bodies.md, in the forms of all ADKs. */

import {Num, isObject, tryJson, writeJson, type Json, type JsonObject} from './json.js';

export interface Call {
  id: string;
  name: string;
  args: Json;
  /** Its result comes later than the invocation ends. */
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
  role: string;
  error: string;
  /** `412 tokens`, `→ logistics`: what people look for beside the parts. */
  facts: string[];
  /** Whether ADK's members say nothing, so that the body itself is to be shown. */
  isForeign: boolean;
}

/** Members whose value is data of the application: its names stay as they are. */
const OPAQUE = new Set([
  ...['agentState', 'args', 'artifactDelta', 'customMetadata', 'output', 'partialArgs'],
  ...['response', 'result', 'stateDelta'],
]);

/** The JSON with ADK's names in camelCase. Of two spellings, the canonical one counts. */
export function camelCase(json: Json): Json {
  if (Array.isArray(json)) {
    return json.map(camelCase);
  }
  if (!isObject(json)) {
    return json;
  }
  const renamed: JsonObject = new Map();
  for (const [given, value] of json) {
    const name = camel(given);
    if (name === given || !json.has(name)) {
      renamed.set(name, OPAQUE.has(name) ? value : camelCase(value));
    }
  }
  return renamed;
}

function camel(name: string): string {
  return name.startsWith('_')
    ? name
    : name.replace(/_+(.?)/g, (_, letter: string) => letter.toUpperCase());
}

/** Reads a body. Never fails: what it cannot read is left to the raw JSON. */
export function readBody(text: string | undefined): Body {
  const given = tryJson(text || '{}');
  const body = isObject(given) ? (camelCase(given) as JsonObject) : new Map<string, Json>();
  const content = objectAt(body, 'content');
  const long = new Set(listAt(body, 'longRunningToolIds').map(textOf));
  const parts = listAt(content, 'parts').map(part => readPart(part, long));
  const error = ['errorCode', 'errorMessage'].map(name => textOf(body.get(name))).filter(Boolean);
  const actions = objectAt(body, 'actions');
  parts.push(...compactionOf(body, actions), ...citationsOf(body));
  const facts = [...factsOf(body, actions), ...usageOf(body)];
  const isForeign = parts.length + error.length + facts.length === 0 && body.size > 0;
  if (isForeign) {
    parts.push(...foreignParts(body));
  }
  return {parts, role: textOf(content.get('role')), error: error.join(': '), facts, isForeign};
}

function readPart(json: Json, long: Set<string>): Part {
  if (!isObject(json)) {
    return {kind: 'other', json};
  }
  const thinking = json.get('thinking');
  if (typeof thinking === 'string') {
    return {kind: 'thought', text: thinking};
  }
  const text = json.get('text');
  if (typeof text === 'string') {
    return {kind: json.get('thought') === true ? 'thought' : 'text', text};
  }
  return readTool(json, long) ?? readFile(json) ?? {kind: 'other', json};
}

/** A call or a result. ADK for Rust writes the members of a call without one around them. */
function readTool(json: JsonObject, long: Set<string>): Part | undefined {
  const isBare = json.has('name') && json.has('args');
  const call = isBare ? json : json.get('functionCall');
  if (isObject(call)) {
    const id = textOf(call.get('id'));
    const args = call.get('args') ?? new Map<string, Json>();
    return {kind: 'call', id, name: textOf(call.get('name')), args, isLong: long.has(id)};
  }
  const result = json.get('functionResponse');
  if (isObject(result)) {
    const id = textOf(result.get('id') ?? json.get('id'));
    return {kind: 'result', id, name: textOf(result.get('name')), response: resultOf(result)};
  }
  return undefined;
}

function resultOf(result: JsonObject): Json {
  const response = result.get('response') ?? null;
  // ADK for Python wraps what is no object in this way.
  const [only] = isObject(response) && response.size === 1 ? response : [];
  return only?.[0] === 'result' ? only[1] : response;
}

function readFile(json: JsonObject): Part | undefined {
  const data = json.get('inlineData') ?? json;
  const mimeType = isObject(data) ? textOf(data.get('mimeType')) : '';
  const bytes = isObject(data) ? data.get('data') : undefined;
  if (bytes !== undefined) {
    return {kind: 'data', mimeType, base64: base64Of(bytes)};
  }
  const file = json.get('fileData') ?? json;
  const uri = isObject(file) ? textOf(file.get('fileUri')) : '';
  return uri
    ? {kind: 'file', mimeType: textOf((file as JsonObject).get('mimeType')), uri}
    : undefined;
}

/** Bytes in the standard alphabet. ADK for Rust writes them as numbers. */
function base64Of(bytes: Json): string {
  if (Array.isArray(bytes)) {
    return btoa(bytes.map(byte => String.fromCharCode(Number(textOf(byte)) & 255)).join(''));
  }
  return textOf(bytes).replaceAll('-', '+').replaceAll('_', '/');
}

function compactionOf(body: JsonObject, actions: JsonObject): Part[] {
  const isOfTypeScript = body.get('isCompacted') === true;
  const compaction = actions.get('compaction');
  const content = isOfTypeScript
    ? body.get('compactedContent')
    : isObject(compaction) && compaction.get('compactedContent');
  const texts = isObject(content || null)
    ? listAt(content as JsonObject, 'parts').map(part => textAt(part, 'text'))
    : [textOf(content || null)];
  return texts.filter(Boolean).map(text => ({kind: 'text', text: `Summary: ${text}`}));
}

function citationsOf(body: JsonObject): Part[] {
  const metadata = objectAt(body, 'citationMetadata');
  const citations = [...listAt(metadata, 'citations'), ...listAt(metadata, 'citationSources')];
  return citations.map(json => ({
    ...{kind: 'file', mimeType: 'citation'},
    uri: textAt(json, 'uri') || textAt(json, 'title'),
  }));
}

function factsOf(body: JsonObject, actions: JsonObject): string[] {
  const facts: string[] = [];
  const agent = textOf(actions.get('transferToAgent'));
  const finish = textOf(body.get('finishReason'));
  const route =
    actions.get('route') ?? actions.get('routes') ?? body.get('route') ?? body.get('routes');
  const artifacts = actions.get('artifactDelta');
  if (agent) {
    facts.push(`transfers to ${agent}`);
  }
  if (actions.get('escalate') === true) {
    facts.push('escalates');
  }
  if (route !== undefined && route !== null) {
    facts.push(`route ${Array.isArray(route) ? route.map(textOf).join(', ') : textOf(route)}`);
  }
  for (const [name, version] of isObject(artifacts) ? artifacts : []) {
    facts.push(`artifact ${name} v${textOf(version)}`);
  }
  if (finish && !['STOP', 'Stop'].includes(finish)) {
    facts.push(`finished by ${finish}`);
  }
  if (body.get('interrupted') === true) {
    facts.push('interrupted');
  }
  return facts;
}

function usageOf(body: JsonObject): string[] {
  const usage = objectAt(body, 'usageMetadata');
  const total = textOf(usage.get('totalTokenCount'));
  const model = textOf(body.get('modelVersion'));
  return [...(total ? [`${total} tokens`] : []), ...(model ? [model] : [])];
}

/** A body of a client without an ADK: its text if it has one, and all of it. */
function foreignParts(body: JsonObject): Part[] {
  const names = ['text', 'message', 'content'];
  const text = names.map(name => body.get(name)).find(value => typeof value === 'string');
  return [
    ...(typeof text === 'string' ? [{kind: 'text', text} as const] : []),
    {kind: 'other', json: body},
  ];
}

/** The first words of a body, for a list. */
export function summaryOf(body: Body): string {
  const texts = body.parts.map(part => {
    switch (part.kind) {
      case 'text':
        return part.text;
      case 'call':
        return `${part.name}(…)`;
      case 'result':
        return `${part.name} → ${writeJson(part.response).slice(0, 200)}`;
      case 'data':
        return part.mimeType;
      case 'file':
        return part.uri;
      case 'other':
        return writeJson(part.json).slice(0, 200);
      case 'thought':
        return '';
    }
  });
  return texts.find(Boolean) || body.error;
}

function objectAt(json: JsonObject, name: string): JsonObject {
  const value = json.get(name);
  return isObject(value) ? value : new Map<string, Json>();
}

function listAt(json: JsonObject, name: string): Json[] {
  const value = json.get(name);
  return Array.isArray(value) ? value : [];
}

function textAt(json: Json, name: string): string {
  return isObject(json) ? textOf(json.get(name)) : '';
}

function textOf(json: Json | undefined): string {
  if (typeof json === 'string') {
    return json;
  }
  return json instanceof Num ? json.text : json ? writeJson(json) : '';
}
