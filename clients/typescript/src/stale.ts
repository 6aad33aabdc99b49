/** What an append from a session object that others have overtaken, or replaced, comes to. */

import {create} from '@bufbuild/protobuf';
import type {Event, Session} from '@google/adk';
import {jsonForm, type Client} from './client.js';
import {staleSession} from './errors.js';
import type {EncodedEvent} from './events.js';
import {
  GetSessionRequestSchema,
  SessionService,
} from './gen/sessiond/v1/session_service_pb.js';
import {
  KeyCheckSchema,
  PreconditionSchema,
  type KeyCheck,
  type Precondition,
  type SessionKey,
} from './gen/sessiond/v1/types_pb.js';
import {isTemp, readStateOf, type StoredValue} from './state.js';
import {sameLife} from './target.js';

/**
 * With every setting, an append to a session that was deleted and created anew
 * since the object was read is an error.
 *
 * * `merge`: the server merges deltas key by key, and the object is updated.
 * * `conflict`: as `merge`, but an error if a key that the event writes has
 *   been changed by others since the object showed it. An object whose stored
 *   values are unknown is checked as with `error`, until its first append.
 * * `error`: an error if others have appended anything.
 */
export type Stale = 'merge' | 'conflict' | 'error';

const ALL: readonly string[] = ['merge', 'conflict', 'error'];

/** What the server is to check, and the sequence that the object was read at, if that is checked. */
export interface Checked {
  readonly precondition?: Precondition;
  readonly readAt?: number;
}

export class Staleness {
  readonly #client: Client;
  readonly #stale: Stale;

  /** @throws TypeError: an unknown setting. */
  constructor(client: Client, stale: Stale) {
    if (!ALL.includes(stale)) {
      throw new TypeError(
        `stale is '${String(stale)}'. It must be one of ${ALL.join(', ')}.`,
      );
    }
    this.#client = client;
    this.#stale = stale;
  }

  /** What the append of `event` from `session` has to check. */
  async check(
    session: Session,
    key: SessionKey,
    event: Event,
    encoded: EncodedEvent,
  ): Promise<Checked> {
    const known = readStateOf(session);
    if (this.#stale === 'merge') {
      return sameLife(known?.uid ?? '');
    }
    if (this.#stale === 'conflict' && known?.values) {
      const keys = keyChecks(known.values, encoded);
      const {uid} = known;
      return keys.length > 0
        ? {precondition: create(PreconditionSchema, {uid, keys})}
        : sameLife(uid);
    }
    const [readAt, uid] = known
      ? [known.sequence, known.uid]
      : await this.#sequenceRead(session, key, event);
    const expectedSequence = BigInt(Math.max(readAt, 0));
    return {
      precondition: create(PreconditionSchema, {uid, expectedSequence}),
      readAt,
    };
  }

  /**
   * The sequence that `session` counts as read at, and the uid of the session
   * that this was decided by; -1 if it is behind by an unknown number of events.
   *
   * A session that this package has not read does not hold its sequence. It
   * counts as current if its newest event is the newest stored one, or the one
   * before `event` if that is stored already.
   *
   * @throws SessiondStaleError: it has events, and the stored session has none.
   */
  async #sequenceRead(
    session: Session,
    key: SessionKey,
    event: Event,
  ): Promise<[sequence: number, uid: string]> {
    const request = create(GetSessionRequestSchema, {
      key,
      events: {recent: 2},
      withoutState: true,
      jsonForm,
    });
    const response = await this.#client.call(
      SessionService.method.getSession,
      request,
    );
    const {lastSequence = 0n, uid = ''} = response.session ?? {};
    const last = Number(lastSequence);
    const newestHere = session.events.at(-1)?.id;
    // Newest first. The last pair is the position before the first event.
    const stored: [string | undefined, number][] = response.events
      .map(one => [one.eventId, Number(one.sequence)] as const)
      .reverse()
      .map(([id, sequence]) => [id, sequence]);
    stored.push([undefined, 0]);
    const [newest, previous] = stored;
    if (newest?.[0] === newestHere) {
      return [last, uid];
    }
    if (newest?.[0] === event.id && previous?.[0] === newestHere) {
      return [newest[1] - 1, uid];
    }
    if (last === 0) {
      throw staleSession('of its own events', String(last));
    }
    // The log has moved on. An expected sequence of 0 makes the server refuse every event that is not stored yet.
    return [newestHere === undefined ? 0 : -1, uid];
  }
}

/**
 * Every key that the event sets or removes must be as the server sent it last.
 * Operations are left out: they start from the value at the commit.
 */
function keyChecks(
  known: ReadonlyMap<string, StoredValue>,
  {texts}: EncodedEvent,
): KeyCheck[] {
  return [...texts.set.keys(), ...texts.remove]
    .filter(key => !isTemp(key))
    .map(key =>
      create(KeyCheckSchema, {key, condition: conditionOf(known.get(key))}),
    );
}

function conditionOf(value: StoredValue | undefined): KeyCheck['condition'] {
  if (!value) {
    return {case: 'exists', value: false};
  }
  const {text, version} = value;
  // Forks, responses without state and older servers come without versions.
  return version === undefined
    ? {case: 'valueJson', value: text}
    : {case: 'version', value: version};
}
