/**
 * Reads the bodies of events, whoever wrote them.
 *
 * ADK for Python, Java and Go write camelCase as ADK for TypeScript does, with
 * a few members in another form; ADK for Rust writes snake_case and other parts;
 * any other program may write any object. Members that nobody here knows stay as
 * they are. What this ADK would fail on is left out, with one warning.
 */

import type {Event} from '@google/adk';
import {readCompaction} from './compaction.js';
import {warn} from './log.js';
import {isObject, removeUnreadable, type Json} from './shape.js';

/** ADK's members that have a spelling in snake_case. */
const EVENT_MEMBERS = [
  ...['invocationId', 'longRunningToolIds', 'groundingMetadata'],
  ...['citationMetadata', 'turnComplete', 'errorCode', 'errorMessage'],
  ...['customMetadata', 'usageMetadata', 'finishReason', 'goAway'],
  ...['liveSessionResumptionUpdate', 'inputTranscription', 'nodeInfo'],
  ...['outputTranscription', 'interactionId', 'modelVersion', 'liveSessionId'],
  'isolationScope',
];
const ACTION_MEMBERS = [
  ...['skipSummarization', 'stateDelta', 'artifactDelta', 'transferToAgent'],
  ...['requestedAuthConfigs', 'requestedToolConfirmations', 'agentState'],
  'endOfAgent',
];
const PART_MEMBERS = [
  ...['functionCall', 'functionResponse', 'inlineData', 'fileData'],
  ...['executableCode', 'codeExecutionResult', 'thoughtSignature'],
  'videoMetadata',
];
const BLOB_MEMBERS = ['mimeType', 'fileUri', 'displayName'];
const COMPACTION_MEMBERS = [
  'startTimestamp',
  'endTimestamp',
  'compactedContent',
];
const ACTION_MAPS = [
  ...(['stateDelta', 'artifactDelta'] as const),
  ...(['requestedAuthConfigs', 'requestedToolConfirmations'] as const),
];

/** The event of a body, with complete `actions`. Never fails. `nanos` is the event's time. */
export function readForeignBody(
  eventId: string,
  text: string,
  nanos: bigint,
): Event {
  const omitted: string[] = [];
  const body = parseObject(text, omitted);
  const renamed = toCamelCase(body, EVENT_MEMBERS);
  const actions = isObject(body['actions']) ? body['actions'] : {};
  toCamelCase(actions, ACTION_MEMBERS);
  body['actions'] = actions;
  readContent(body['content']);
  const {compaction} = actions;
  if (isObject(compaction)) {
    toCamelCase(compaction, COMPACTION_MEMBERS);
    readContent(compaction['compactedContent']);
  }
  readCompaction(body, actions, nanos, omitted);
  readRoute(body, actions);
  readMetadata(body);
  if (renamed) {
    // Rust writes a null for what is not set.
    removeNulls(body);
    removeNulls(actions);
  }
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

/** Reads the parts of a content in the form of any kit. */
function readContent(content: unknown): void {
  if (isObject(content) && Array.isArray(content['parts'])) {
    content['parts'] = content['parts'].map((part: unknown) =>
      isObject(part) ? readPart(part) : part,
    );
  }
}

/** A part in this ADK's form. Rust's parts are objects of their own, told apart by their members. */
function readPart(part: Json): Json {
  toCamelCase(part, PART_MEMBERS);
  for (const name of ['inlineData', 'fileData']) {
    const blob = part[name];
    if (isObject(blob)) {
      toCamelCase(blob, BLOB_MEMBERS);
    }
  }
  const answer = part['functionResponse'];
  if (
    isObject(answer) &&
    'response' in answer &&
    !isObject(answer['response'])
  ) {
    // A tool in Rust may return any JSON. ADK for Python wraps what is not an object in this way.
    answer['response'] = {result: answer['response']};
  }
  const {thinking, signature, name, args, id, data, thoughtSignature} = part;
  if (typeof thinking === 'string') {
    return defined({
      text: thinking,
      thought: true,
      thoughtSignature: signature,
    });
  }
  if (typeof name === 'string' && 'args' in part) {
    return defined({functionCall: defined({id, name, args}), thoughtSignature});
  }
  if (isObject(answer) && typeof id === 'string') {
    const {id: _, ...rest} = part;
    return {...rest, functionResponse: {id, ...answer}};
  }
  const {mime_type: mimeType, file_uri: fileUri} = part;
  if (Array.isArray(data)) {
    const bytes = Buffer.from(data as number[]).toString('base64');
    return {inlineData: defined({mimeType, data: bytes})};
  }
  if (typeof fileUri === 'string') {
    return {fileData: defined({mimeType, fileUri})};
  }
  return part;
}

/** Go's `routes` and Python's `actions.route` are `route` here. */
function readRoute(body: Json, actions: Json): void {
  body['route'] ??= body['routes'] ?? actions['route'];
  if (body['route'] === undefined || body['route'] === null) {
    delete body['route'];
  }
}

/** Java writes customMetadata as a list of keys with typed values. */
function readMetadata(body: Json): void {
  const list = body['customMetadata'];
  if (!Array.isArray(list)) {
    return;
  }
  const pairs = list.filter(isObject).map(entry => {
    const {key, stringValue, numericValue, stringListValue} = entry;
    const values = isObject(stringListValue)
      ? stringListValue['values']
      : undefined;
    return [String(key), stringValue ?? numericValue ?? values ?? null];
  });
  body['customMetadata'] = Object.fromEntries(pairs) as Json;
}

/** Renames members from snake_case in place. Returns whether there was one. */
function toCamelCase(object: Json, members: readonly string[]): boolean {
  let renamed = false;
  for (const member of members) {
    const snake = member.replace(/[A-Z]/g, upper => `_${upper.toLowerCase()}`);
    if (snake !== member && snake in object && !(member in object)) {
      object[member] = object[snake];
      delete object[snake];
      renamed = true;
    }
  }
  return renamed;
}

function removeNulls(object: Json): void {
  for (const [name, value] of Object.entries(object)) {
    if (value === null) {
      delete object[name];
    }
  }
}

/** `object` without the members that are undefined or null. */
function defined(object: Json): Json {
  return Object.fromEntries(
    Object.entries(object).filter(
      ([, value]) => value !== undefined && value !== null,
    ),
  );
}
