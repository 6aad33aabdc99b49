/** State that may not fit into one answer, put together from pages. */

import {create, type MessageInitShape} from '@bufbuild/protobuf';
import {jsonForm, scopeOf, type Client} from './client.js';
import {pastTooLarge} from './errors.js';
import {
  GetStateRequestSchema,
  StateService,
  type UpdateStateResponse,
} from './gen/sessiond/v1/state_service_pb.js';
import type {
  Scope,
  Session as StoredSession,
} from './gen/sessiond/v1/types_pb.js';
import type {StateSnapshot} from './gen/sessiond/v1/watch_service_pb.js';
import {joinObject, splitObject} from './json.js';
import {warn, warnOfDamage} from './log.js';
import {refuseOtherLife} from './target.js';

/** The merged state of a scope: the values as JSON texts, with prefixed keys. */
export interface ScopeState {
  readonly texts: Map<string, string>;
  /** The versions of the keys, if they were asked for. */
  readonly versions: Record<string, bigint>;
  /** Keys that were left out, since their stored values are damaged. */
  readonly damagedKeys: string[];
}

/** What else a read of state says: `uid` is the life of the session id that is meant. */
type Reading = {uid?: string} & Pick<
  MessageInitShape<typeof GetStateRequestSchema>,
  'invocationId' | 'includeVersions' | 'keys'
>;

/**
 * The merged state of a scope, however many pages it fills, with the shared
 * `temp:` keys of an invocation. Warns of damaged keys.
 *
 * @throws SessiondNotFoundError: the scope is a session that does not exist.
 * @throws SessiondStaleError: the scope is a session, and another one has its id since it was read.
 */
export async function readState(
  client: Client,
  scope: Scope,
  {uid = '', ...fields}: Reading = {},
): Promise<ScopeState> {
  const request = create(GetStateRequestSchema, {scope, jsonForm, ...fields});
  const state: ScopeState = {texts: new Map(), versions: {}, damagedKeys: []};
  let life = uid;
  do {
    const page = await client.call(StateService.method.getState, request);
    if (scope.sessionId) {
      refuseOtherLife(scope, life, page.uid);
      life ||= page.uid;
    }
    const {stateForm} = page;
    const text = stateForm.case === 'stateJson' ? stateForm.value : '{}';
    splitObject(text).forEach((value, key) => state.texts.set(key, value));
    Object.assign(state.versions, page.versions);
    state.damagedKeys.push(...page.damagedKeys);
    if (page.stateOmitted) {
      warn('A value of the state does not fit into an answer and is missing.');
    }
    request.pageToken = page.nextPageToken;
  } while (request.pageToken);
  warnOfDamage('state', state.damagedKeys);
  return state;
}

/**
 * The session of an answer with its state, which is read page by page if it did
 * not fit into the answer. Warns of damaged keys.
 *
 * @throws SessiondError: the state of the past does not fit into an answer.
 */
export async function withState(
  client: Client,
  stored: StoredSession,
  asOfSequence?: bigint,
): Promise<StoredSession> {
  const {key, uid} = stored;
  if (!stored.stateOmitted) {
    warnOfDamage(`session ${key?.sessionId}`, stored.damagedKeys);
    return stored;
  }
  if (asOfSequence !== undefined) {
    throw pastTooLarge(asOfSequence);
  }
  const scope = scopeOf(present(key, 'key'));
  const {includeVersions} = client;
  const state = await readState(client, scope, {uid, includeVersions});
  stored.stateForm = {case: 'stateJson', value: joinObject(state.texts)};
  stored.versions = state.versions;
  stored.damagedKeys = state.damagedKeys;
  return stored;
}

/** An answer with the state of a scope, or with the news that it does not fit in. */
type StateAnswer = Pick<
  UpdateStateResponse | StateSnapshot,
  'stateForm' | 'stateOmitted' | 'damagedKeys' | 'uid'
>;

/** The values of an answer as JSON texts, which are read page by page if they did not fit in. Warns of damaged keys. */
export async function stateTexts(
  client: Client,
  scope: Scope,
  {stateForm, stateOmitted, damagedKeys, uid}: StateAnswer,
): Promise<Map<string, string>> {
  if (stateOmitted) {
    return (await readState(client, scope, {uid})).texts;
  }
  warnOfDamage('state', damagedKeys);
  return splitObject(stateForm.case === 'stateJson' ? stateForm.value : '{}');
}

/** A message that the contract promises. */
export function present<T>(message: T | undefined, name: string): T {
  if (message === undefined) {
    throw new TypeError(`The response of the server has no ${name}.`);
  }
  return message;
}
