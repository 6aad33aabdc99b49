/** The session that a call is about: an address, or a session object, which also says which life of its id is meant. */

import {create} from '@bufbuild/protobuf';
import type {Session} from '@google/adk';
import {sessionKey, type SessionAddress} from './client.js';
import {sessionReplaced} from './errors.js';
import {
  PreconditionSchema,
  type Precondition,
  type SessionKey,
} from './gen/sessiond/v1/types_pb.js';
import {readStateOf} from './state.js';

/**
 * An address, or a session object. With an object, a write is refused if the
 * session was deleted and its id created anew since the object was read.
 */
export type SessionTarget = SessionAddress | {readonly session: Session};

export function addressOf(target: SessionTarget): SessionAddress {
  if (!('session' in target)) {
    return target;
  }
  const {appName, userId, id: sessionId} = target.session;
  return {appName, userId, sessionId};
}

/** The life of the session id that a target means; '' if it does not say. */
export function uidOf(target: SessionTarget): string {
  return 'session' in target ? (readStateOf(target.session)?.uid ?? '') : '';
}

/** The precondition that a write goes to this life; none for an unknown one. */
export function sameLife(uid: string): {precondition?: Precondition} {
  return uid ? {precondition: create(PreconditionSchema, {uid})} : {};
}

/** The fields of a write to `target`. */
export function writeTo(target: SessionTarget): {
  key: SessionKey;
  precondition?: Precondition;
} {
  const key = sessionKey(addressOf(target));
  return {key, ...sameLife(uidOf(target))};
}

/** @throws SessiondStaleError: both uids are known and of different lives. */
export function refuseOtherLife(
  address: SessionAddress,
  meant: string,
  found: string,
): void {
  if (meant && found && meant !== found) {
    throw sessionReplaced(address);
  }
}
