/**
 * Files of a session: in ADK's own form, for its tools, and complete, for `sessiond import`.
 *
 * ADK refuses unknown members, so its form has only known ones, like that of `sessiond export`.
 */

import {TEXT, pages} from './api.js';
import {camelCase} from './body.js';
import type {Address, Event, Session} from './contract.js';
import {Raw, object, objectOf, toJson, tryJson, writeJson, type Json, type Member} from './json.js';
import {sessionAt} from './session.js';

const PAGE_SIZE = 1000;
/** Some browsers read the file only after the click. */
const SAVE_MS = 60_000;
const ENVELOPE = ['id', 'timestamp', 'invocationId', 'author', 'branch', 'actions'];
const ACTIONS = [
  ...['agentState', 'artifactDelta', 'compaction', 'endOfAgent', 'escalate', 'renderUiWidgets'],
  ...['requestedAuthConfigs', 'requestedToolConfirmations', 'rewindBeforeInvocationId', 'route'],
  ...['setModelResponse', 'skipSummarization', 'transferReason', 'transferToAgent'],
];
const CONTENT = ['parts', 'role'];
/** Members that ADK takes only as objects. */
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
const FORMS = {adk: adkFile, complete: completeFile};
export type FileForm = keyof typeof FORMS;

/** Reads a session as it is now and saves it. `progress` gets the number of events so far. */
export async function download(
  address: Address,
  form: FileForm,
  progress: (events: number) => void,
  abort: AbortSignal,
): Promise<void> {
  const session = await sessionAt(address, undefined, abort);
  const created = await sessionAt(address, 0, abort);
  const last = Number(session.lastSequence ?? 0);
  const events: Event[] = [];
  const selection = {includeRewound: true};
  const request = {key: address, pageSize: PAGE_SIZE, selection, ...TEXT};
  for await (const page of pages('EventService/ListEvents', request, abort)) {
    events.push(...(page.events ?? []).slice(0, last - events.length));
    progress(events.length);
    if (events.length === last) {
      break;
    }
  }
  if (events.length < last || created.uid !== session.uid) {
    throw new Error('The session was changed meanwhile. Try again.');
  }
  const {appName, userId, sessionId} = address;
  // A name that every file system takes.
  const ids = [appName, userId, sessionId].map(id => id.replace(/[^\w.-]+/g, '_').slice(0, 60));
  const name = ids.join('-').replace(/^\.+/, '') + (form === 'adk' ? '' : '.complete');
  save(FORMS[form]({session, created, events}), `${name}.session.json`);
}

function save(text: string, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), SAVE_MS);
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
  const body = objectOf(camelCase(tryJson(event.bodyJson) ?? null));
  const delta = objectOf(tryJson(event.stateDelta?.setJson));
  const isEmpty = (value: Json) => ['{}', '[]', 'false'].includes(writeJson(value));
  const others = known(body.get('actions'), ACTIONS).filter(([, value]) => !isEmpty(value));
  const actions = object([['stateDelta', delta.size > 0 ? delta : undefined], ...others]);
  const data = [...body].filter(
    ([name, value]) =>
      !ENVELOPE.includes(name) &&
      value !== null &&
      (value instanceof Map || !OBJECTS.includes(name)),
  );
  return object([
    ['id', event.eventId],
    ['timestamp', event.eventTime && stampOf(event.eventTime)],
    ['invocationId', event.invocationId],
    ['author', event.author ?? ''],
    ['branch', event.branch],
    ...data.map(([name, value]): Member => [name, name === 'content' ? contentOf(value) : value]),
    ['actions', actions.size > 0 ? actions : undefined],
  ]);
}

function contentOf(json: Json): Json {
  const content = object(known(json, CONTENT));
  const parts = content.get('parts');
  if (Array.isArray(parts)) {
    content.set(
      'parts',
      parts.map(part => object(known(part, PART))),
    );
  }
  return content;
}

function known(json: Json | undefined, names: string[]): [string, Json][] {
  return [...objectOf(json)].filter(([name, value]) => names.includes(name) && value !== null);
}

/** The event as it is stored, byte for byte. Of a rewind's marker, the server makes the rest. */
function exactEvent({stateDelta, rewindToSequence, ...event}: Event): Json {
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
    ['rewind_to_sequence', raw(rewindToSequence)],
    ...(rewindToSequence === undefined ? rest : []),
  ]);
}

function raw(text: string | undefined): Raw | undefined {
  return text ? new Raw(text) : undefined;
}

/** Seconds since 1970, with all digits of an RFC 3339 time. ADK for Python needs the point. */
export function stampOf(time: string): Raw {
  const [, whole = '', fraction = ''] = /^([^.Z]*)(?:\.(\d+))?Z$/.exec(time) ?? [];
  const seconds = Math.floor(Date.parse(`${whole}Z`) / 1000) || 0;
  const nanos = BigInt(seconds) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0').slice(0, 9));
  const size = nanos < 0n ? -nanos : nanos;
  const digits = String(size % 1_000_000_000n).padStart(9, '0');
  const text = `${nanos < 0n ? '-' : ''}${size / 1_000_000_000n}.${digits}`;
  return new Raw(text.replace(/(?<=\.\d+?)0+$/, ''));
}
