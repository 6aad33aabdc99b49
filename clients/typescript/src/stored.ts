/** Events with their places in the log, and their names. */

import {create} from '@bufbuild/protobuf';
import type {Event} from '@google/adk';
import {decodeEvent} from './events.js';
import {
  EventRefSchema,
  type EventRef,
} from './gen/sessiond/v1/event_service_pb.js';
import type {Event as WireEvent} from './gen/sessiond/v1/types_pb.js';
import {millisOf} from './times.js';

/** An event with its place in the log. */
export interface StoredEvent {
  readonly event: Event;
  /** Its number in the session's log, from 1. */
  readonly sequence: number;
  /** Time of the commit on the server's clock, in milliseconds since 1970. */
  readonly commitTime: number;
  /** Hidden from `getSession`, by a rewind or as the marker of one. */
  readonly rewound: boolean;
  /** On the marker of a rewind, the last event that stays visible. */
  readonly rewindToSequence: number | undefined;
}

export function decodeStored(stored: WireEvent): StoredEvent {
  const {rewindToSequence: rewind} = stored;
  return {
    event: decodeEvent(stored),
    sequence: Number(stored.sequence),
    commitTime: millisOf(stored.commitTime),
    rewound: stored.rewound,
    rewindToSequence: rewind === undefined ? undefined : Number(rewind),
  };
}

/**
 * The message of an event's id or sequence.
 *
 * @throws TypeError: neither a string nor a number.
 * @throws RangeError: a number that is no safe integer.
 */
export function encodeRef(ref: string | number): EventRef {
  if (typeof ref !== 'string' && typeof ref !== 'number') {
    throw new TypeError(`${String(ref)} is neither an id nor a sequence.`);
  }
  if (typeof ref === 'number' && !Number.isSafeInteger(ref)) {
    throw new RangeError(
      `${ref} is not a sequence. It must be a safe integer.`,
    );
  }
  return create(EventRefSchema, {
    ref:
      typeof ref === 'string'
        ? {case: 'eventId', value: ref}
        : {case: 'sequence', value: BigInt(ref)},
  });
}

export function decodeRef({ref}: EventRef): string | number {
  return ref.case === 'eventId' ? ref.value : Number(ref.value);
}
