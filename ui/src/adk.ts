/**
 * Files of a session: in ADK's own form, for its tools, and complete, for `sessiond import`.
 *
 * ADK refuses members that it does not know, so its form leaves them out, as `sessiond export` does.
 */

import {camelCase} from './body.js';
import type {Event, Session} from './contract.js';
import {Raw, isObject, toJson, tryJson, writeJson, type Json, type JsonObject} from './json.js';

const ENVELOPE = ['id', 'timestamp', 'invocationId', 'author', 'branch', 'actions'];
const ACTIONS = [
  ...['agentState', 'artifactDelta', 'compaction', 'endOfAgent', 'escalate', 'renderUiWidgets'],
  ...['requestedAuthConfigs', 'requestedToolConfirmations', 'rewindBeforeInvocationId', 'route'],
  ...['setModelResponse', 'skipSummarization', 'transferReason', 'transferToAgent'],
];
const CONTENT = ['parts', 'role'];
const PART = [
  ...['audioTranscription', 'codeExecutionResult', 'executableCode', 'fileData', 'functionCall'],
  ...['functionResponse', 'inlineData', 'mediaProcessing', 'mediaResolution', 'partMetadata'],
  ...['speechMetadata', 'text', 'thought', 'thoughtSignature', 'toolCall', 'toolResponse'],
  'videoMetadata',
];

/** What a file is made of. `events` has the hidden ones too, in the order of the log. */
export interface Contents {
  session: Session;
  /** As it was created. */
  created: Session;
  events: Event[];
}

/** ADK's own form: visible events, without what it cannot hold. */
export function adkFile({session, events}: Contents): string {
  const visible = events.filter(event => !event.rewound && event.rewindToSequence === undefined);
  return fileOf(session, visible.map(adkEvent), []);
}

/** Everything. An import restores an equal session from the exact form of its events. */
export function completeFile({session, created, events}: Contents): string {
  const {displayName, labels, expireTime, createTime, forkedFrom} = session;
  const {appName, userId, sessionId} = forkedFrom?.key ?? {};
  const metadata = objectOf({
    format: 1,
    ...{display_name: displayName, labels, expire_time: expireTime, create_time: createTime},
    forked_from: forkedFrom && {
      ...{app_name: appName, user_id: userId, session_id: sessionId},
      sequence: Number(forkedFrom.sequence ?? 0),
    },
  });
  const extra: JsonObject = new Map([
    ['session', metadata],
    ['initial_state', stateOf(created)],
    ['hidden', events.map(exactEvent)],
  ]);
  return fileOf(session, [], [['sessiond', extra]]);
}

function fileOf(session: Session, events: Json[], extra: [string, Json][]): string {
  const {appName = '', userId = '', sessionId = ''} = session.key ?? {};
  const members: [string, Json][] = [
    ['id', sessionId],
    ['appName', appName],
    ['userId', userId],
    ...(session.stateOmitted ? [] : [['state', stateOf(session)] as [string, Json]]),
    ['lastUpdateTime', stampOf(session.lastEventTime ?? session.createTime ?? '')],
    ['events', events],
    ...extra,
  ];
  return `${writeJson(new Map(members), 1)}\n`;
}

function stateOf(session: Session): Json {
  return tryJson(session.stateJson ?? '{}') ?? new Map();
}

/** The event as ADK writes it. */
export function adkEvent(event: Event): Json {
  const given = camelCase(tryJson(event.bodyJson ?? '{}') ?? new Map<string, Json>());
  const body = isObject(given) ? given : new Map<string, Json>();
  const entry = objectOf({id: event.eventId});
  if (event.eventTime) {
    entry.set('timestamp', stampOf(event.eventTime));
  }
  const {invocationId, branch} = event;
  for (const [name, value] of objectOf({invocationId, author: event.author ?? '', branch})) {
    entry.set(name, value);
  }
  for (const [name, value] of body) {
    const isWritten = ENVELOPE.includes(name) || value === null;
    const mustBeObject = name === 'content' || name === 'customMetadata';
    if (!isWritten && (!mustBeObject || isObject(value))) {
      entry.set(name, name === 'content' ? contentOf(value) : value);
    }
  }
  const actions = actionsOf(body.get('actions'), event.stateDelta?.setJson);
  if (actions.size > 0) {
    entry.set('actions', actions);
  }
  return entry;
}

function actionsOf(actions: Json | undefined, set: string | undefined): JsonObject {
  const delta = tryJson(set ?? '{}');
  const isSet = isObject(delta) && delta.size > 0;
  const isEmpty = (value: Json) => ['{}', '[]', 'false'].includes(writeJson(value));
  const others = known(actions, ACTIONS).filter(([, value]) => !isEmpty(value));
  return new Map([...(isSet ? [['stateDelta', delta] as [string, Json]] : []), ...others]);
}

function contentOf(content: Json): Json {
  const members = known(content, CONTENT).map(([name, value]): [string, Json] => {
    const isParts = name === 'parts' && Array.isArray(value);
    return [name, isParts ? value.map(part => new Map(known(part, PART))) : value];
  });
  return new Map(members);
}

function known(json: Json | undefined, names: string[]): [string, Json][] {
  const isKnown = ([name, value]: [string, Json]) => names.includes(name) && value !== null;
  return isObject(json) ? [...json].filter(isKnown) : [];
}

/** The event as it is stored. The server makes the rest of a marker. */
function exactEvent(event: Event): Json {
  const isMarker = event.rewindToSequence !== undefined;
  const {sequence, eventId, author, traceId, invocationId, branch, eventTime, stateDelta} = event;
  const exact = objectOf({
    ...{sequence: Number(sequence), event_id: eventId, author, trace_id: traceId},
    ...(isMarker
      ? {rewind_to_sequence: Number(event.rewindToSequence)}
      : {invocation_id: invocationId, branch, event_time: eventTime, remove: stateDelta?.remove}),
  });
  const texts = {set: stateDelta?.setJson, body: event.bodyJson};
  for (const [name, text] of isMarker ? [] : Object.entries(texts)) {
    if (text) {
      // Byte for byte.
      exact.set(name, new Raw(text));
    }
  }
  return exact;
}

/** The members that have a value. */
function objectOf(members: Record<string, unknown>): JsonObject {
  const isThere = ([, value]: [string, unknown]) => value !== undefined && value !== '';
  const present = Object.entries(members).filter(isThere);
  return new Map(present.map(([name, value]) => [name, toJson(value)]));
}

/** Seconds since 1970 with every digit of an RFC 3339 time. ADK for Python needs a point. */
export function stampOf(time: string): Raw {
  const [, whole = '', fraction = ''] = /^([^.Z]*)(?:\.(\d+))?Z$/.exec(time) ?? [];
  const seconds = Math.floor(Date.parse(`${whole}Z`) / 1000) || 0;
  const nanos = BigInt(seconds) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0').slice(0, 9));
  const size = nanos < 0n ? -nanos : nanos;
  const digits = String(size % 1_000_000_000n)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return new Raw(`${nanos < 0n ? '-' : ''}${size / 1_000_000_000n}.${digits || '0'}`);
}
