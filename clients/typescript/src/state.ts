/**
 * The state of a session object, and what the server sent of it last.
 *
 * ADK stamps writes by the identity of `session.state` and of a delta, and its
 * contexts hold the state object itself. So neither is ever replaced: state is
 * changed in place, and what belongs to it is kept beside it.
 */

import {State, type Session} from '@google/adk';
import type {SessionAddress} from './client.js';
import type {StateDelta} from './gen/sessiond/v1/types_pb.js';
import {
  canonical,
  encodeValue,
  refuseIllFormedKey,
  splitObject,
  textOf,
} from './json.js';

type Values = Record<string, unknown>;

/**
 * A value as the server last sent it, with the version of its key. Both come
 * from one response: a version that is newer than the value would hide the
 * write of another writer from `stale: 'conflict'`.
 */
export interface StoredValue {
  readonly text: string;
  /** Undefined if the server has not sent it. */
  readonly version: bigint | undefined;
}

/** What this package knows about a state object that it has read, or has updated to what the server has. */
export interface ReadState {
  readonly address: SessionAddress;
  /** Sequence of the session's newest event at the read. */
  sequence: number;
  /** The life of the session id that was read; '' if the server has not sent it. */
  uid: string;
  /** The stored values by key, without `temp:` keys; undefined for a listed session, which comes without state. */
  values: Map<string, StoredValue> | undefined;
  /** Ids of events that were stored at the read, or have been since. */
  readonly eventIds: Set<string>;
}

const read = new WeakMap<object, ReadState>();

/**
 * What the server sent last for a session object; undefined for an object of
 * others, such as a copy, and for one that borrows the state of another session.
 */
export function readStateOf(session: Session): ReadState | undefined {
  const known = read.get(session.state);
  const {appName, userId, sessionId} = known?.address ?? {};
  const isSame =
    session.appName === appName &&
    session.userId === userId &&
    session.id === sessionId;
  return isSame ? known : undefined;
}

export function isTemp(key: string): boolean {
  return key.startsWith(State.TEMP_PREFIX);
}

/** The values of the stored JSON object `text`. */
export function storedValues(
  text: string,
  versions: Readonly<Record<string, bigint>> = {},
): Map<string, StoredValue> {
  return new Map(
    [...splitObject(text)].map(([key, value]) => {
      const version = Object.hasOwn(versions, key) ? versions[key] : undefined;
      return [key, {text: value, version}];
    }),
  );
}

/** The session that a state object belongs to, as it was read. */
interface ReadAt {
  readonly address: SessionAddress;
  readonly sequence: number;
  readonly uid: string;
}

/** A new state object of stored values. */
export function decodeState(
  values: ReadonlyMap<string, StoredValue>,
  readAt: ReadAt,
  eventIds: Iterable<string>,
): Values {
  const state: Values = {};
  for (const [key, {text}] of values) {
    setOwn(state, key, JSON.parse(text));
  }
  read.set(state, {
    ...readAt,
    values: withoutTemp(values),
    eventIds: new Set(eventIds),
  });
  return state;
}

/** The empty state object of a listed session. */
export function listedState(readAt: ReadAt): Values {
  const state: Values = {};
  read.set(state, {...readAt, values: undefined, eventIds: new Set()});
  return state;
}

export function valuesOf(texts: ReadonlyMap<string, string>): Values {
  const values: Values = {};
  for (const [key, text] of texts) {
    setOwn(values, key, JSON.parse(text));
  }
  return values;
}

/** A delta as texts: the values to set, and the keys that are undefined, which are removed. */
export interface DeltaTexts {
  readonly set: Map<string, string>;
  readonly remove: string[];
  /** Keys whose texts have U+FFFD for halves of surrogate pairs that the values have. */
  readonly mended: ReadonlySet<string>;
}

/**
 * The texts of a delta.
 *
 * @param before the stored values, whose spelling unchanged values keep.
 * @throws StateValueError: a value has no JSON form.
 */
export function encodeDelta(
  values: Readonly<Values>,
  options: {
    shareTemp?: boolean;
    before?: ReadonlyMap<string, StoredValue>;
  } = {},
): DeltaTexts {
  const set = new Map<string, string>();
  const remove: string[] = [];
  const mended = new Set<string>();
  for (const [key, value] of Object.entries(values)) {
    if (isTemp(key) && !options.shareTemp) {
      continue;
    }
    if (value === undefined) {
      refuseIllFormedKey(key);
      remove.push(key);
    } else {
      const before = options.before?.get(key)?.text;
      set.set(key, encodeValue(key, value, before, mended));
    }
  }
  return {set, remove, mended};
}

/** The state of a session in an answer. */
export interface StoredState extends Omit<ReadAt, 'address'> {
  readonly values: ReadonlyMap<string, StoredValue>;
  /** Keys that the server has left out, since their stored values are damaged. */
  readonly damagedKeys: readonly string[];
}

/**
 * Updates the state of `session` in place to what the server has.
 * The event that was just committed has been applied already; `own` are its texts.
 *
 * * A key that others have changed gets their value. A key that others have
 *   removed is removed.
 * * A value that the caller has set and not committed stays: an agent's tools
 *   write into this object before their event is appended, and the append of
 *   another branch must not undo that. The key then counts as not yet read.
 * * `temp:` keys stay. Those that are shared get the server's value.
 * * A key whose stored value is damaged stays.
 *
 * For a listed session and an object that this package has not read, the
 * earlier stored values are unknown: every key gets the server's value, and
 * none but the event's own is removed. From then on they are known.
 */
export function applyStoredState(
  session: Session,
  {values: stored, sequence, uid, damagedKeys}: StoredState,
  own: DeltaTexts,
): void {
  const known = readStateOf(session);
  const seen = known?.values;
  const values = withoutTemp(stored);
  for (const [key, now] of stored) {
    if (isTemp(key)) {
      // Without `before`, a value of the server cannot be told from one of the caller.
      if (textOf(session.state[key]) !== canonical(now.text)) {
        setOwn(session.state, key, JSON.parse(now.text));
      }
      continue;
    }
    const before = seen?.get(key);
    const mine = own.set.get(key);
    const unchanged =
      before?.text === now.text && before.version === now.version;
    if (mine === now.text || (mine === undefined && unchanged)) {
      continue;
    }
    if (seen && isUncommitted(session.state, key, before, own)) {
      restore(values, key, before);
    } else {
      setOwn(session.state, key, JSON.parse(now.text));
    }
  }
  const candidates = new Set([
    ...(seen?.keys() ?? []),
    ...own.set.keys(),
    ...own.remove,
  ]);
  for (const key of candidates) {
    if (stored.has(key) || isTemp(key)) {
      continue;
    }
    const before = seen?.get(key);
    if (damagedKeys.includes(key)) {
      restore(values, key, before);
    } else if (!seen || !isUncommitted(session.state, key, before, own)) {
      delete session.state[key];
    } else if (!own.remove.includes(key)) {
      restore(values, key, before);
    }
  }
  if (known) {
    known.sequence = sequence;
    known.values = values;
    known.uid ||= uid;
  } else {
    const {appName, userId, id: sessionId} = session;
    const address = {appName, userId, sessionId};
    const eventIds = new Set<string>();
    read.set(session.state, {address, sequence, uid, values, eventIds});
  }
}

/** As `applyStoredState`, of what the event has changed alone. */
export function applyOwnChanges(
  session: Session,
  changes: StateDelta | undefined,
  sequence: number,
  own: DeltaTexts,
): void {
  const known = readStateOf(session);
  const set =
    changes?.setForm.case === 'setJson' ? changes.setForm.value : '{}';
  for (const [key, text] of withoutTemp(splitObject(set))) {
    known?.values?.set(key, {text, version: undefined});
    if (own.set.get(key) !== text) {
      setOwn(session.state, key, JSON.parse(text));
    }
  }
  for (const key of changes?.remove ?? []) {
    known?.values?.delete(key);
    delete session.state[key];
  }
  if (known) {
    known.sequence = sequence;
  }
}

/** Makes the state of `session` equal to `fresh`, in place. `temp:` keys stay. */
export function replaceState(session: Session, fresh: Session): void {
  const {state} = session;
  for (const key of Object.keys(state)) {
    if (!isTemp(key)) {
      delete state[key];
    }
  }
  for (const [key, value] of Object.entries(fresh.state)) {
    setOwn(state, key, value);
  }
  const known = read.get(fresh.state);
  if (known) {
    read.set(state, known);
  }
}

/** Whether the caller has set, changed or deleted `key` since the read, other than by the event in `own`. */
function isUncommitted(
  state: Values,
  key: string,
  before: StoredValue | undefined,
  own: DeltaTexts,
): boolean {
  const here = Object.hasOwn(state, key) ? state[key] : undefined;
  if (here === undefined) {
    return before !== undefined && !own.remove.includes(key);
  }
  const text = textOf(here);
  if (text === undefined) {
    return true;
  }
  return ![before?.text, own.set.get(key)].some(
    known => known !== undefined && canonical(known) === text,
  );
}

/** Leaves `key` in `values` as it was read. */
function restore(
  values: Map<string, StoredValue>,
  key: string,
  before: StoredValue | undefined,
): void {
  if (before === undefined) {
    values.delete(key);
  } else {
    values.set(key, before);
  }
}

/** Sets an own property, also if its name is `__proto__`. */
export function setOwn(target: Values, key: string, value: unknown): void {
  Object.defineProperty(target, key, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

function withoutTemp<T>(values: ReadonlyMap<string, T>): Map<string, T> {
  return new Map([...values].filter(([key]) => !isTemp(key)));
}

/** The values whose keys begin with `prefix`, by the rest of the key. */
export function withoutPrefix(
  texts: ReadonlyMap<string, string>,
  prefix: string,
): Values {
  const values: Values = {};
  for (const [key, text] of texts) {
    if (key.startsWith(prefix)) {
      setOwn(values, key.slice(prefix.length), JSON.parse(text));
    }
  }
  return values;
}

export function withPrefix(values: Readonly<Values>, prefix: string): Values {
  const prefixed: Values = {};
  for (const [key, value] of Object.entries(values)) {
    setOwn(prefixed, prefix + key, value);
  }
  return prefixed;
}
