/**
 * Errors of failed calls, each with the server's reason.
 *
 * A request that cannot be encoded throws a TypeError or a RangeError before
 * anything is sent; a `StateValueError` if a state value is the cause.
 */

import {status as Code} from '@grpc/grpc-js';
import type {SessionAddress} from './client.js';
import type {Status} from './status.js';

/** What `SessiondError` says in addition to a message. */
type Details = Omit<Status, 'message' | 'retryable'>;

/**
 * A call to sessiond failed. Base class of the errors of all calls.
 */
export class SessiondError extends Error implements Details {
  /** The gRPC status code. */
  readonly code: Code;
  /** The server's reason, such as `STATE_TOO_LARGE`; '' if the transport failed. */
  readonly reason: string;
  /** The variable parts of the message. Lists are JSON arrays. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The faults of an invalid request. */
  readonly fieldViolations: Status['fieldViolations'];
  /** The delay that the server asks for. */
  readonly retryAfterMs: number | undefined;
  /** How often the call was sent. After more than one attempt, an earlier one may have been applied. */
  readonly attempts: number;

  constructor(status: Status, attempts = 1, cause?: unknown) {
    // The server's message describes the first violation only.
    const others = status.fieldViolations
      .slice(1)
      .map(({field, description}) => `; ${field}: ${description}`)
      .join('');
    const name = status.reason || Code[status.code] || `code ${status.code}`;
    super(`${status.message}${others} [${name}]`, {cause});
    this.name = new.target.name;
    this.code = status.code;
    this.reason = status.reason;
    this.metadata = status.metadata;
    this.fieldViolations = status.fieldViolations;
    this.retryAfterMs = status.retryAfterMs;
    this.attempts = attempts;
  }
}

/** The session does not exist. */
export class SessiondNotFoundError extends SessiondError {}

/** The session id, the event id or the request id is taken. */
export class SessiondAlreadyExistsError extends SessiondError {}

/**
 * The session has been modified in storage since it was read, with
 * `stale: 'error'`; with every setting, if it was deleted and its id created
 * anew (SESSION_REPLACED).
 */
export class SessiondStaleError extends SessiondError {}

/** With `stale: 'conflict'`: others have changed keys that the event writes. */
export class SessiondConflictError extends SessiondError {
  /** The keys, as far as the server names them. */
  get keys(): string[] {
    const keys: unknown = JSON.parse(this.metadata['keys'] ?? '[]');
    return Array.isArray(keys) ? keys.map(String) : [];
  }
}

/** The request breaks a rule or a limit. `fieldViolations` names every field. */
export class SessiondInvalidError extends SessiondError {}

/**
 * The server could not be reached or could not serve the call, and the retries
 * are used up. An earlier attempt may have been applied. An append can be
 * called again.
 */
export class SessiondUnavailableError extends SessiondError {}

/** The server does not accept the token or the certificate, or misses it. */
export class SessiondUnauthenticatedError extends SessiondError {}

/** The server knows the caller, who may not do this. */
export class SessiondPermissionDeniedError extends SessiondError {}

/** The deadline expired. A write may have been applied; an append can be called again. */
export class SessiondDeadlineError extends SessiondError {}

/** The service was closed during the call. A write may have been applied; an append can be called again. */
export class SessiondClosedError extends SessiondError {}

/** A state value has no JSON form. Thrown before anything is sent. */
export class StateValueError extends TypeError {
  /** @param key the key of the value, with its prefix. */
  constructor(
    readonly key: string,
    cause: string,
  ) {
    super(`The value of state key '${key}' cannot be stored: ${cause}`);
    this.name = new.target.name;
  }
}

/** The reason of a refusal: the id belongs to another session now. */
export const SESSION_REPLACED = 'SESSION_REPLACED';

const BY_CODE: Partial<Record<Code, typeof SessiondError>> = {
  [Code.NOT_FOUND]: SessiondNotFoundError,
  [Code.ALREADY_EXISTS]: SessiondAlreadyExistsError,
  [Code.INVALID_ARGUMENT]: SessiondInvalidError,
  [Code.UNAVAILABLE]: SessiondUnavailableError,
  [Code.DEADLINE_EXCEEDED]: SessiondDeadlineError,
  [Code.UNAUTHENTICATED]: SessiondUnauthenticatedError,
  [Code.PERMISSION_DENIED]: SessiondPermissionDeniedError,
};

/** The error of a status: by reason for a conflict, else by code. */
export function errorOf(
  status: Status,
  attempts = 1,
  cause?: unknown,
): SessiondError {
  if (status.reason === 'SEQUENCE_CONFLICT') {
    const {expected = '?', actual = '?'} = status.metadata;
    return staleSession(expected, actual, attempts, cause);
  }
  if (status.reason === SESSION_REPLACED) {
    return new SessiondStaleError(status, attempts, cause);
  }
  if (status.reason === 'KEY_CONFLICT') {
    return new SessiondConflictError(status, attempts, cause);
  }
  const Kind = BY_CODE[status.code] ?? SessiondError;
  return new Kind(status, attempts, cause);
}

/** A status that this package makes itself. */
function localStatus(
  code: Code,
  message: string,
  reason = '',
  metadata: Record<string, string> = {},
): Status {
  return {
    code,
    message,
    reason,
    metadata,
    fieldViolations: [],
    retryAfterMs: undefined,
    retryable: 'no',
  };
}

/** The error of a session object at sequence `expected` while the server is at `actual`. */
export function staleSession(
  expected: string,
  actual: string,
  attempts = 1,
  cause?: unknown,
): SessiondStaleError {
  const message =
    'The session has been modified in storage since it was read ' +
    `(expected sequence ${expected}, found ${actual}). ` +
    'Read it again before appending more events.';
  return new SessiondStaleError(
    localStatus(Code.ABORTED, message, 'SEQUENCE_CONFLICT', {expected, actual}),
    attempts,
    cause,
  );
}

/** The error of a session object whose id belongs to another session now. */
export function sessionReplaced({
  appName,
  userId,
  sessionId,
}: SessionAddress): SessiondStaleError {
  const message =
    `Session '${sessionId}' of user '${userId}' in application '${appName}' ` +
    'was deleted and created anew since it was read. Read it again.';
  return new SessiondStaleError(
    localStatus(Code.ABORTED, message, SESSION_REPLACED, {
      app_name: appName,
      user_id: userId,
      session_id: sessionId,
    }),
  );
}

/** The error of a state of the past that no answer can hold. Pages show the present only. */
export function pastTooLarge(sequence: bigint): SessiondError {
  const message = `The state as of sequence ${sequence} does not fit into an answer.`;
  return new SessiondError(
    localStatus(Code.RESOURCE_EXHAUSTED, message, 'ANSWER_TOO_LARGE'),
  );
}

export function serviceClosed(cause?: unknown): SessiondClosedError {
  return new SessiondClosedError(
    localStatus(Code.CANCELLED, 'The service was closed during the call.'),
    1,
    cause,
  );
}

/** The error of a read that found nothing, as the server words it. */
export function sessionNotFound(
  appName: string,
  userId: string,
  sessionId: string,
): SessiondNotFoundError {
  return new SessiondNotFoundError(
    localStatus(
      Code.NOT_FOUND,
      `There is no session '${sessionId}' of user '${userId}' in application '${appName}'.`,
      'SESSION_NOT_FOUND',
      {app_name: appName, user_id: userId, session_id: sessionId},
    ),
  );
}
