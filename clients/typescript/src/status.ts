/** Reads a gRPC status with its details, and whether the call may be sent again. */

import {fromBinary} from '@bufbuild/protobuf';
import {anyUnpack} from '@bufbuild/protobuf/wkt';
import {status as Code, type ServiceError} from '@grpc/grpc-js';
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
  StatusSchema,
} from './gen/google/rpc/details_pb.js';

const DOMAIN = 'sessiond';

/** Whether a call may be sent again; `same_id`: only with the same event or request id. */
export type Retryable = 'yes' | 'same_id' | 'no';

/** A gRPC status with its details. */
export interface Status {
  readonly code: Code;
  readonly message: string;
  /** `ErrorInfo.reason` (see docs/errors.md); '' without an ErrorInfo from sessiond. */
  readonly reason: string;
  /** `ErrorInfo.metadata`. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Field path and description of each fault, from BadRequest. */
  readonly fieldViolations: readonly {field: string; description: string}[];
  /** The delay of RetryInfo. */
  readonly retryAfterMs: number | undefined;
  readonly retryable: Retryable;
}

/** The status of a failed call. Details that cannot be decoded are ignored. */
export function statusOf(error: ServiceError): Status {
  let reason = '';
  let metadata: Record<string, string> = {};
  let fieldViolations: Status['fieldViolations'] = [];
  let retryAfterMs: number | undefined;
  for (const detail of detailsOf(error)) {
    const info = anyUnpack(detail, ErrorInfoSchema);
    const retry = anyUnpack(detail, RetryInfoSchema)?.retryDelay;
    const badRequest = anyUnpack(detail, BadRequestSchema);
    if (info?.domain === DOMAIN) {
      ({reason, metadata} = info);
    }
    if (retry) {
      retryAfterMs = Number(retry.seconds) * 1000 + retry.nanos / 1e6;
    }
    if (badRequest) {
      fieldViolations = badRequest.fieldViolations;
    }
  }
  const code = reason ? error.code : transportCode(error);
  return {
    code,
    message: error.details,
    reason,
    metadata,
    fieldViolations,
    retryAfterMs,
    retryable: retryableOf(code, reason, metadata),
  };
}

/** The details of a status. A proxy may have damaged them; the caller still needs the status itself. */
function detailsOf(error: ServiceError) {
  const [bytes] = error.metadata?.get('grpc-status-details-bin') ?? [];
  if (!(bytes instanceof Uint8Array)) {
    return [];
  }
  try {
    return fromBinary(StatusSchema, bytes).details;
  } catch {
    return [];
  }
}

/** grpc-js reports some lost connections as INTERNAL. */
function transportCode(error: ServiceError): Code {
  const lost =
    error.code === Code.INTERNAL &&
    error.details.startsWith('Received RST_STREAM');
  return lost ? Code.UNAVAILABLE : error.code;
}

function retryableOf(
  code: Code,
  reason: string,
  metadata: Readonly<Record<string, string>>,
): Retryable {
  if (!reason) {
    // A status of the transport. If the connection was lost, the call may have been applied.
    return code === Code.UNAVAILABLE ? 'same_id' : 'no';
  }
  // A value that a newer server adds must not cause retries.
  const value = metadata['retryable'];
  return value === 'yes' || value === 'same_id' ? value : 'no';
}
