/**
 * The canonical form of an event's body (docs/bodies.md), and its variants: ADK
 * files of other languages, older ADK files, and clients without an adapter.
 *
 * This ADK has the route and compactions in other members (`compaction.ts`).
 * Members that no rule names are kept. What it would fail on is left out, with
 * one warning.
 */

import type {Event} from '@google/adk';
import {moveCompaction, readCompaction, writeCompaction} from './compaction.js';
import {warn} from './log.js';
import {isObject, removeUnreadable, type Json} from './shape.js';

/** The members whose own members have canonical names. What others hold may be data of the application. */
const RECORDS = new Set([
  ...['actions', 'citationMetadata', 'compactedContent', 'compaction'],
  ...['content', 'fileData', 'functionCall', 'functionResponse', 'inlineData'],
  ...['groundingMetadata', 'nodeInfo', 'parts', 'usageMetadata'],
]);

/** Names of one ADK, in camelCase, for members that the others have too; and reasons to finish of ADK for Rust. */
const RENAMED: Record<string, string> = {
  ...{Stop: 'STOP', MaxTokens: 'MAX_TOKENS', Safety: 'SAFETY'},
  ...{Recitation: 'RECITATION', Other: 'OTHER'},
  cacheReadInputTokenCount: 'cachedContentTokenCount',
  citationSources: 'citations',
  routes: 'route',
  thinkingTokenCount: 'thoughtsTokenCount',
};

/** Parts that ADK for Rust writes without a member around them: the member, what tells the part, and its members. */
const BARE_PARTS: [string, string[], string[]][] = [
  ['functionCall', ['name', 'args'], ['id', 'name', 'args']],
  ['inlineData', ['mimeType', 'data'], ['mimeType', 'data']],
  ['fileData', ['fileUri'], ['mimeType', 'fileUri']],
];

const ACTION_MAPS = [
  ...(['stateDelta', 'artifactDelta'] as const),
  ...(['requestedAuthConfigs', 'requestedToolConfirmations'] as const),
];

/** The JSON of an event in the canonical form, without the delta. */
export function canonicalBody(event: Event): string {
  const {route, ...body} = event as unknown as Json;
  const actions: Json = {...event.actions, stateDelta: undefined, route};
  return writeCompaction({...body, actions: event.actions && actions});
}

/** The event of a body in any form, with complete `actions`. Never fails. */
export function readBody(eventId: string, text: string): Event {
  const omitted: string[] = [];
  const body = toCanonical(parseObject(text, omitted));
  const actions = isObject(body['actions']) ? body['actions'] : {};
  body['actions'] = actions;
  if ('route' in actions) {
    body['route'] = actions['route'];
    delete actions['route'];
  }
  readCompaction(body, actions, text, omitted);
  removeUnreadable(body, omitted);
  for (const map of ACTION_MAPS) {
    actions[map] ??= {};
  }
  if (omitted.length > 0) {
    warn(
      `event ${eventId}: omitted what this version of ADK cannot read: ${omitted.join(', ')}`,
    );
  }
  return body as unknown as Event;
}

function parseObject(text: string, omitted: string[]): Json {
  if (!text) {
    return {};
  }
  try {
    const body: unknown = JSON.parse(text);
    if (isObject(body)) {
      return body;
    }
  } catch {
    // Named below.
  }
  omitted.push('the body');
  return {};
}

/** A copy of a body in the canonical form, but for the times of a compaction. */
function toCanonical(given: Json): Json {
  const body = rename(given) as Json;
  const {route, customMetadata, finishReason} = body;
  const actions = body['actions'] ?? {};
  if (isObject(actions)) {
    if (route !== undefined) {
      actions['route'] ??= route;
      delete body['route'];
    }
    moveCompaction(body, actions);
    body['actions'] = actions;
  }
  if (Array.isArray(customMetadata)) {
    body['customMetadata'] = metadataOf(customMetadata.filter(isObject));
  }
  if (typeof finishReason === 'string') {
    body['finishReason'] = RENAMED[finishReason] ?? finishReason;
  }
  return body;
}

/** The node with canonical names and parts, and without members that are null. */
function rename(node: unknown): unknown {
  if (Array.isArray(node)) {
    return node.map(rename);
  }
  if (!isObject(node)) {
    return node;
  }
  const renamed: Json = {};
  for (const [given, value] of Object.entries(node)) {
    const camel = given.replace(
      /(?<=[A-Za-z0-9])_+([A-Za-z0-9])/g,
      (_, letter: string) => letter.toUpperCase(),
    );
    const name = RENAMED[camel] ?? camel;
    const keepsNull = name === 'args' || name === 'response';
    // Of two spellings, the canonical one counts.
    if ((name === given || !(name in node)) && (value !== null || keepsNull)) {
      renamed[name] = RECORDS.has(name) ? rename(value) : value;
    }
  }
  if (Array.isArray(renamed['parts'])) {
    renamed['parts'].filter(isObject).forEach(convertPart);
    if (renamed['role'] === 'function') {
      renamed['role'] = 'user';
    }
  }
  return renamed;
}

/** Makes the kind of a part a member around it. */
function convertPart(part: Json): void {
  if (typeof part['thinking'] === 'string') {
    move(part, 'thinking', part, 'text');
    move(part, 'signature', part, 'thoughtSignature');
    part['thought'] = true;
  }
  for (const [kind, required, members] of BARE_PARTS) {
    if (required.every(name => name in part)) {
      const inner: Json = {};
      members.forEach(name => move(part, name, inner));
      part[kind] = inner;
    }
  }
  const {functionCall, functionResponse, inlineData} = part;
  if (isObject(functionCall) && functionCall['args'] === null) {
    functionCall['args'] = {};
  }
  if (isObject(functionResponse)) {
    move(part, 'id', functionResponse);
    const {response = {}} = functionResponse;
    if (!isObject(response)) {
      // A tool in Rust may return any JSON. ADK for Python wraps what is not an object in this way.
      functionResponse['response'] = {result: response};
    }
  }
  if (isObject(inlineData) && Array.isArray(inlineData['data'])) {
    const bytes = Buffer.from(inlineData['data'] as number[]);
    inlineData['data'] = bytes.toString('base64');
  }
}

function move(from: Json, name: string, to: Json, as = name): void {
  if (name in from) {
    const value = from[name];
    delete from[name];
    to[as] = value;
  }
}

/** Java writes customMetadata as a list of keys with typed values. */
function metadataOf(entries: Json[]): Json {
  const pairs = entries.map(entry => {
    const {key, stringValue, numericValue, stringListValue} = entry;
    const values = isObject(stringListValue)
      ? stringListValue['values']
      : undefined;
    return [String(key), stringValue ?? numericValue ?? values ?? null];
  });
  return Object.fromEntries(pairs) as Json;
}
