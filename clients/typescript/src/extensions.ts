/** What the service offers beyond ADK's interface: operations, and state without a session. */

import {create} from '@bufbuild/protobuf';
import {
  createEvent,
  createEventActions,
  State,
  type Event,
  type Session,
} from '@google/adk';
import {randomUUID} from 'node:crypto';
import {Appender} from './append.js';
import {
  jsonForm,
  scopeOf,
  sessionKey,
  type Client,
  type ScopeAddress,
} from './client.js';
import {sessionNotFound} from './errors.js';
import {
  EndInvocationRequestSchema,
  StateService,
  UpdateStateRequestSchema,
} from './gen/sessiond/v1/state_service_pb.js';
import {History} from './history.js';
import {joinObject, splitObject} from './json.js';
import * as operations from './operations.js';
import {encodeWholeDelta, type Delta, type Operation} from './operations.js';
import {readSession, readStoredSession} from './reading.js';
import {stateTextOf} from './sessions.js';
import type {Stale} from './stale.js';
import {
  isTemp,
  replaceState,
  valuesOf,
  withoutPrefix,
  withPrefix,
} from './state.js';
import {present, readState, stateTexts} from './state_pages.js';
import {
  addressOf,
  refuseOtherLife,
  sameLife,
  uidOf,
  type SessionTarget,
} from './target.js';

type Values = Record<string, unknown>;

/** The methods of the service beyond ADK's interface. */
export abstract class Extensions extends History {
  /** @internal */
  protected readonly appender: Appender;

  /** @internal */
  constructor(client: Client, stale: Stale, shareTemp: boolean) {
    super(client);
    this.appender = new Appender(client, {
      stale,
      shareTemp,
      applyLocally: (session, event) => super.appendEvent({session, event}),
    });
  }

  // Operations through a session object. Each appends an event, as every change of a session's state does.

  /**
   * Changes state that is visible from `session` with an event without content, and updates `session`.
   *
   * Returns the event. Its `stateDelta` has the new value of each key, null for removed keys.
   *
   * @throws SessiondError: TYPE_MISMATCH if an operation does not fit the stored value; otherwise as `appendEvent`.
   */
  async change(
    session: Session,
    delta: Delta,
    {author = 'system', invocationId = ''} = {},
  ): Promise<Event> {
    const stateDelta = {...delta.values};
    const actions = createEventActions({stateDelta});
    const event = createEvent({author, invocationId, actions});
    await this.appender.append(session, event, delta.operations ?? []);
    return event;
  }

  // These return the result of their own commit, even if others have changed the key since.

  /** Adds to a number and returns the sum. No concurrent increment is lost, and no two return one sum. */
  async increment(
    session: Session,
    key: string,
    by: number | bigint = 1,
  ): Promise<number> {
    const sum = await this.#operate(session, operations.increment(key, by));
    return sum as number;
  }

  /** Appends to a list, keeps its newest `maxLength` items (0: all), and returns it. */
  async appendToList(
    session: Session,
    key: string,
    values: readonly unknown[],
    maxLength = 0,
  ): Promise<unknown[]> {
    const operation = operations.appendToList(key, values, maxLength);
    return (await this.#operate(session, operation)) as unknown[];
  }

  /** Sets a key that has no value, and returns its value, whether this call or another has set it. */
  async setIfAbsent(
    session: Session,
    key: string,
    value: unknown,
  ): Promise<unknown> {
    return this.#operate(session, operations.setIfAbsent(key, value));
  }

  /** Merges `patch` into an object (RFC 7396: null removes a member), and returns it. */
  async merge(
    session: Session,
    key: string,
    patch: Readonly<Values>,
  ): Promise<Values> {
    const operation = operations.mergePatch(key, patch);
    return (await this.#operate(session, operation)) as Values;
  }

  /** Removes keys. Setting a key to null stores a null instead. */
  async remove(session: Session, ...keys: string[]): Promise<void> {
    await this.change(session, {operations: keys.map(operations.remove)});
  }

  /** Appends an event with one operation, and returns the value of its key right after that commit. */
  async #operate(session: Session, operation: Operation): Promise<unknown> {
    const {key} = operation;
    if (isTemp(key)) {
      throw new TypeError(
        `'${key}' belongs to an invocation. Pass the operation to appendEvent.`,
      );
    }
    const event = createEvent({author: 'system'});
    const appended = await this.appender.append(session, event, [operation]);
    const delta = event.actions.stateDelta;
    if (Object.hasOwn(delta, key)) {
      // A copy: the caller may change it, and the event is in session.events.
      return structuredClone(delta[key]);
    }
    // The commit did not change the key. The state of a replay is that of now, so it is read as of the commit.
    const {stored, response} = present(appended, 'event');
    const committed = present(response.session, 'session');
    const address = present(committed.key, 'key');
    let state = stateTextOf(committed);
    if (committed.stateOmitted) {
      // State that does not fit into an answer can be read as of now only.
      const scope = scopeOf(address);
      const {uid} = committed;
      const {texts} = await readState(this.client, scope, {uid, keys: [key]});
      state = joinObject(texts);
    } else if (response.replayed || state === undefined) {
      const {uid} = committed;
      const {sequence} = stored;
      state = stateTextOf(
        await readStoredSession(this.client, address, uid, sequence),
      );
    }
    const text = splitObject(state ?? '{}').get(key);
    return text === undefined ? undefined : JSON.parse(text);
  }

  /**
   * Updates `session` in place to what is stored, including the events of
   * others. Uncommitted changes of its state are lost. `temp:` keys stay.
   *
   * @throws SessiondNotFoundError: the session does not exist any more.
   * @throws SessiondStaleError: another session has its id now.
   */
  async refresh(session: Session): Promise<void> {
    const address = addressOf({session});
    // Without the lock, the session that is read could lack an event that an in-flight append adds to `session`.
    await this.appender.locks.hold(session.state, async () => {
      const fresh = await readSession(this.client, address);
      if (!fresh) {
        const {appName, userId, sessionId} = address;
        throw sessionNotFound(appName, userId, sessionId);
      }
      refuseOtherLife(address, uidOf({session}), uidOf({session: fresh}));
      replaceState(session, fresh);
      session.events.splice(0, session.events.length, ...fresh.events);
      session.lastUpdateTime = fresh.lastUpdateTime;
    });
  }

  // State without a session object.

  /**
   * Reads the merged state of an application, a user or a session, with
   * prefixed keys. With `invocationId` also the `temp:` keys that were shared in
   * that invocation. An application or user without state has none.
   *
   * @throws SessiondNotFoundError: the session does not exist.
   */
  async getState(
    address: ScopeAddress & {readonly invocationId?: string},
  ): Promise<Values> {
    const scope = scopeOf(address);
    const {invocationId = ''} = address;
    const {texts} = await readState(this.client, scope, {invocationId});
    return valuesOf(texts);
  }

  /**
   * Changes state outside an invocation, and returns the merged state of the
   * scope with prefixed keys. An application's scope accepts `app:` keys; a
   * user's, `app:` and `user:` keys; a session's, all but `temp:` keys. A change
   * through a session is an event of its log. Retries within the call apply the
   * delta once. A session object does not change.
   *
   * @throws SessiondStaleError: the session of the object was deleted and its id created anew.
   * @throws SessiondInvalidError: a key is outside the scope (KEY_OUTSIDE_SCOPE).
   */
  async updateState(
    target: (ScopeAddress | SessionTarget) & {readonly author?: string},
    delta: Delta,
  ): Promise<Values> {
    const session = 'session' in target;
    const scope = scopeOf(session ? addressOf(target) : target);
    const request = create(UpdateStateRequestSchema, {
      scope,
      delta: encodeWholeDelta(delta),
      author: target.author ?? '',
      requestId: randomUUID(),
      jsonForm,
      ...(session && sameLife(uidOf(target))),
    });
    const {updateState} = StateService.method;
    const response = await this.client.call(updateState, request);
    return valuesOf(await stateTexts(this.client, scope, response));
  }

  /** Reads an application's state. Keys come without `app:`. */
  async getAppState({appName}: {appName: string}): Promise<Values> {
    const {texts} = await readState(this.client, scopeOf({appName}));
    return withoutPrefix(texts, State.APP_PREFIX);
  }

  /** Reads a user's state. Keys come without `user:`. */
  async getUserState(address: {
    appName: string;
    userId: string;
  }): Promise<Values> {
    const {texts} = await readState(this.client, scopeOf(address));
    return withoutPrefix(texts, State.USER_PREFIX);
  }

  /** Sets keys of an application's state. Pass them without `app:`; undefined removes a key. */
  async updateAppState(
    {appName}: {appName: string},
    values: Readonly<Values>,
  ): Promise<void> {
    const prefixed = withPrefix(values, State.APP_PREFIX);
    await this.updateState({appName}, {values: prefixed});
  }

  /** Sets keys of a user's state. Pass them without `user:`; undefined removes a key. */
  async updateUserState(
    address: {appName: string; userId: string},
    values: Readonly<Values>,
  ): Promise<void> {
    const prefixed = withPrefix(values, State.USER_PREFIX);
    await this.updateState(address, {values: prefixed});
  }

  /** Drops the `temp:` keys that were shared in an invocation. Otherwise they expire after an hour without use. */
  async endInvocation(session: Session, invocationId: string): Promise<void> {
    const key = sessionKey(addressOf({session}));
    const request = create(EndInvocationRequestSchema, {key, invocationId});
    await this.client.call(StateService.method.endInvocation, request);
  }
}
