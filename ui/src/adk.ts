/**
 * Files of a session: in ADK's own form, for its tools, and complete, for `sessiond import`.
 *
 * ADK refuses members that it does not know: its form lacks them, as that of `sessiond export`.
 */

import {camelCase, objectOf} from './body.js';
import type {Event, Session} from './contract.js';
import {Raw, isObject, toJson, tryJson, writeJson, type Json, type JsonObject} from './json.js';

const ENVELOPE = ['id', 'timestamp', 'invocationId', 'author', 'branch', 'actions'];
const ACTIONS = [
  ...['agentState', 'artifactDelta', 'compaction', 'endOfAgent', 'escalate', 'renderUiWidgets'],
  ...['requestedAuthConfigs', 'requestedToolConfirmations', 'rewindBeforeInvocationId', 'route'],
  ...['setModelResponse', 'skipSummarization', 'transferReason', 'transferToAgent'],
];
const CONTENT = ['parts', 'role'];
/** ADK refuses any other JSON there. */
const OBJECTS = ['content', 'customMetadata'];
const PART = [
  ...['audioTranscription', 'codeExecutionResult', 'executableCode', 'fileData', 'functionCall'],
  ...['functionResponse', 'inlineData', 'mediaProcessing', 'mediaResolution', 'partMetadata'],
  ...['speechMetadata', 'text', 'thought', 'thoughtSignature', 'toolCall', 'toolResponse'],
  'videoMetadata',
];

/** The content of a file. `events` has the hidden ones too, in the order of the log. */
interface Contents {
  session: Session;
  /** As it was created. */
  created: Session;
  events: Event[];
}

/** ADK's own form: visible events, without what it cannot hold. */
export function adkFile({session, events}: Contents): string {
  const visible = events.filter(event => !event.rewound && event.rewindToSequence === undefined);
  return fileOf(session, visible.map(adkEvent));
}

/** Everything. An import restores an equal session from the exact form of its events. */
export function completeFile({session, created, events}: Contents): string {
  const {displayName, labels, expireTime, createTime, forkedFrom: origin} = session;
  const forkedFrom = object([
    ['app_name', origin?.key?.appName],
    ['user_id', origin?.key?.userId],
    ['session_id', origin?.key?.sessionId],
    ['sequence', raw(origin?.sequence ?? '0')],
  ]);
  const metadata = object([
    ['format', raw('1')],
    ['display_name', displayName],
    ['labels', labels && toJson(labels)],
    ['expire_time', expireTime],
    ['create_time', createTime],
    ['forked_from', origin && forkedFrom],
  ]);
  const extra = object([
    ['session', metadata],
    ['initial_state', raw(created.stateJson) ?? new Map()],
    ['hidden', events.map(exactEvent)],
  ]);
  return fileOf(session, [], extra);
}

function fileOf(session: Session, events: Json[], extra?: Json): string {
  const {key, stateJson, stateOmitted, lastEventTime, createTime} = session;
  const file = object([
    ['id', key?.sessionId],
    ['appName', key?.appName],
    ['userId', key?.userId],
    ['state', stateOmitted ? undefined : raw(stateJson)],
    ['lastUpdateTime', stampOf(lastEventTime ?? createTime ?? '')],
    ['events', events],
    ['sessiond', extra],
  ]);
  return `${writeJson(file, 1)}\n`;
}

/** The event as ADK writes it. */
export function adkEvent(event: Event): Json {
  const {eventTime, author = ''} = event;
  const body = objectOf(camelCase(tryJson(event.bodyJson || '{}') ?? null));
  const delta = objectOf(tryJson(event.stateDelta?.setJson || '{}'));
  const isNamed = (value: Json) => !['{}', '[]', 'false'].includes(writeJson(value));
  const others = known(body.get('actions'), ACTIONS).filter(([, value]) => isNamed(value));
  const actions = object([['stateDelta', delta.size > 0 ? delta : undefined], ...others]);
  const data = [...body].filter(
    ([name, value]) =>
      !ENVELOPE.includes(name) && value !== null && (isObject(value) || !OBJECTS.includes(name)),
  );
  return object([
    ['id', event.eventId],
    ['timestamp', eventTime && stampOf(eventTime)],
    ['invocationId', event.invocationId],
    ['author', author],
    ['branch', event.branch],
    ...data.map(([name, value]): Member => [name, name === 'content' ? contentOf(value) : value]),
    ['actions', actions.size > 0 ? actions : undefined],
  ]);
}

function contentOf(content: Json): Json {
  const partOf = (part: Json) => object(known(part, PART));
  const members = known(content, CONTENT).map(([name, value]): Member => {
    return [name, name === 'parts' && Array.isArray(value) ? value.map(partOf) : value];
  });
  return object(members);
}

function known(json: Json | undefined, names: string[]): [string, Json][] {
  return [...objectOf(json)].filter(([name, value]) => names.includes(name) && value !== null);
}

/** The event as it is stored, byte for byte. The server makes the rest of a marker. */
function exactEvent(event: Event): Json {
  const {rewindToSequence, stateDelta} = event;
  const isMarker = rewindToSequence !== undefined;
  const rest: Member[] = [
    ['invocation_id', event.invocationId],
    ['branch', event.branch],
    ['event_time', event.eventTime],
    ['remove', stateDelta?.remove],
    ['set', raw(stateDelta?.setJson)],
    ['body', raw(event.bodyJson)],
  ];
  return object([
    ['sequence', raw(event.sequence)],
    ['event_id', event.eventId],
    ['author', event.author],
    ['trace_id', event.traceId],
    ...(isMarker ? [['rewind_to_sequence', raw(rewindToSequence)] as Member] : rest),
  ]);
}

type Member = [string, Json | undefined];

/** The members that have a value. */
function object(members: Member[]): JsonObject {
  return new Map(members.filter((it): it is [string, Json] => it[1] !== undefined));
}

function raw(text: string | undefined): Raw | undefined {
  return text ? new Raw(text) : undefined;
}

/** Seconds since 1970 with every digit of an RFC 3339 time. ADK for Python needs a point. */
export function stampOf(time: string): Raw {
  const [, whole = '', fraction = ''] = /^([^.Z]*)(?:\.(\d+))?Z$/.exec(time) ?? [];
  const seconds = Math.floor(Date.parse(`${whole}Z`) / 1000) || 0;
  const nanos = BigInt(seconds) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0').slice(0, 9));
  const size = nanos < 0n ? -nanos : nanos;
  const digits = String(size % 1_000_000_000n).padStart(9, '0');
  const text = `${nanos < 0n ? '-' : ''}${size / 1_000_000_000n}.${digits}`;
  return new Raw(text.replace(/(?<=\.\d+?)0+$/, ''));
}
