/** The client that the whole package calls the server through: deadlines, retries, errors, addresses. */

import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageShape,
} from '@bufbuild/protobuf';
import type {ServiceError} from '@grpc/grpc-js';
import type {Connections} from './channel.js';
import {type Connection} from './channel.js';
import {errorOf, SessiondClosedError, SessiondError} from './errors.js';
import {
  EventService,
  type ListEventsRequest,
} from './gen/sessiond/v1/event_service_pb.js';
import {
  JsonForm,
  ScopeSchema,
  SessionKeySchema,
  type Scope,
  type SessionKey,
  type Event as StoredEvent,
} from './gen/sessiond/v1/types_pb.js';
import type {Backoff} from './retry.js';
import {statusOf} from './status.js';

/** The server's maximum, which is also the most refs of a request. It also cuts pages at the size of a message. */
export const PAGE_SIZE = 1000;

/** The form of every response. */
export const jsonForm = JsonForm.TEXT;

export interface ClientOptions {
  /** Whether requests for the state of a session ask for the versions of its keys. */
  readonly includeVersions?: boolean;
  /** Until the server has answered a first time, calls are retried no longer than this. Default: until their deadline. */
  readonly absentMs?: number;
}

/** Calls one server. Connects at the first call. */
export class Client {
  readonly includeVersions: boolean;
  readonly #absentMs: number;
  #answered = false;

  /** @throws RangeError: the timeout is not positive. */
  constructor(
    readonly connections: Connections,
    readonly timeoutMs: number,
    readonly backoff: Backoff,
    {includeVersions = false, absentMs = Infinity}: ClientOptions = {},
  ) {
    this.includeVersions = includeVersions;
    this.#absentMs = absentMs;
    if (!(timeoutMs > 0)) {
      throw new RangeError(
        `The timeout is ${timeoutMs} ms. It must be positive.`,
      );
    }
  }

  /**
   * Calls a method until it succeeds, fails for good, or no time or attempt is left.
   *
   * @throws SessiondError: of the last attempt.
   */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
  ): Promise<MessageShape<O>> {
    const began = Date.now();
    const deadline = began + this.timeoutMs;
    // All attempts use one connection, so that closing the service between two attempts ends the call.
    const connection = this.connections.current();
    for (let attempts = 1; ; attempts++) {
      try {
        const response = await connection.invoke(method, request, deadline);
        this.#answered = true;
        return response;
      } catch (failure) {
        await this.#backOff(connection, failure, attempts, began);
      }
    }
  }

  /** Waits before the next attempt, or throws the error that ends the call. */
  async #backOff(
    connection: Connection,
    failure: unknown,
    attempts: number,
    began: number,
  ): Promise<void> {
    if (!isServiceError(failure)) {
      throw failure;
    }
    const status = statusOf(failure);
    const error = errorOf(status, attempts, failure);
    // A status of the transport has no reason.
    this.#answered ||= status.reason !== '';
    const absentMs = this.#answered ? Infinity : this.#absentMs;
    const delay = this.backoff.delayMs(attempts, status.retryAfterMs);
    // Waiting past the deadline would replace this error by a DEADLINE_EXCEEDED, which says less.
    const late =
      Date.now() + delay >= began + Math.min(this.timeoutMs, absentMs);
    if (
      status.retryable === 'no' ||
      attempts >= this.backoff.attempts ||
      late
    ) {
      throw error;
    }
    await connection.sleep(delay);
  }

  /** All events from the page of `request` on. Changes `request`. */
  async *listEvents(request: ListEventsRequest): AsyncGenerator<StoredEvent> {
    request.pageSize = PAGE_SIZE;
    request.jsonForm = jsonForm;
    do {
      const page = await this.call(EventService.method.listEvents, request);
      yield* page.events;
      request.pageToken = page.nextPageToken;
    } while (request.pageToken);
  }
}

/** Whether a failure is a gRPC status, and not an error of this package or of the caller's own functions. */
export function isServiceError(failure: unknown): failure is ServiceError {
  return (
    failure instanceof Error &&
    !(failure instanceof SessiondError) &&
    typeof (failure as Partial<ServiceError>).code === 'number' &&
    typeof (failure as Partial<ServiceError>).details === 'string'
  );
}

export function isClosed(failure: unknown): failure is SessiondClosedError {
  return failure instanceof SessiondClosedError;
}

/** The address of a session, as ADK names its parts. */
export interface SessionAddress {
  readonly appName: string;
  readonly userId: string;
  readonly sessionId: string;
}

/** The address of an application, a user or a session. */
export interface ScopeAddress {
  readonly appName: string;
  readonly userId?: string | undefined;
  readonly sessionId?: string | undefined;
}

/**
 * The full key of a session.
 *
 * @throws TypeError: a part is empty. The server would look up a bare session id among the sessions of all users.
 */
export function sessionKey(address: SessionAddress): SessionKey {
  refuseEmpty(address);
  const {appName, userId, sessionId} = address;
  return create(SessionKeySchema, {appName, userId, sessionId});
}

/** @throws TypeError: a part is empty, or a session comes without its user. */
export function scopeOf(address: ScopeAddress): Scope {
  const {appName, userId, sessionId} = address;
  if (sessionId !== undefined && userId === undefined) {
    throw new TypeError('sessionId needs a userId.');
  }
  refuseEmpty({appName, userId, sessionId});
  return create(ScopeSchema, {
    appName,
    userId: userId ?? '',
    sessionId: sessionId ?? '',
  });
}

function refuseEmpty({appName, userId, sessionId}: ScopeAddress): void {
  for (const [name, value] of Object.entries({appName, userId, sessionId})) {
    if (value === '') {
      throw new TypeError(`${name} is empty.`);
    }
  }
}
