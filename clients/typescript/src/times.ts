/** Times: milliseconds since 1970 in ADK, seconds and nanoseconds on the wire. */

import {create} from '@bufbuild/protobuf';
import {
  DurationSchema,
  TimestampSchema,
  type Duration,
  type Timestamp,
} from '@bufbuild/protobuf/wkt';

const NANOS_PER_SECOND = 1_000_000_000n;
const NANOS_PER_MILLI = 1_000_000n;

// The range of google.protobuf.Timestamp: the years 1 to 9999.
export const EARLIEST_MS = -62_135_596_800_000;
export const LATEST_MS = 253_402_300_799_999;

/**
 * The nearest nanosecond. Equal numbers give equal nanoseconds, and order is kept.
 *
 * @throws RangeError: not finite, or outside the years 1 to 9999.
 */
export function toNanos(ms: number): bigint {
  if (!Number.isFinite(ms)) {
    throw new RangeError(
      `${ms} is not a time. Use finite milliseconds since 1970.`,
    );
  }
  if (ms < EARLIEST_MS || ms >= LATEST_MS + 1) {
    throw new RangeError(
      `${ms} milliseconds since 1970 is outside the years 1 to 9999.`,
    );
  }
  return exactNanos(ms);
}

/** Both parts are exact: a product of the whole number would be rounded. */
function exactNanos(ms: number): bigint {
  const whole = Math.floor(ms);
  const nanos = Math.min(Math.round((ms - whole) * 1e6), 999_999);
  return BigInt(whole) * NANOS_PER_MILLI + BigInt(nanos);
}

/** The nearest number. Inverts `toNanos` for times after April 1970. */
export function fromNanos(nanos: bigint): number {
  const [whole, rest] = floorDivide(nanos, NANOS_PER_MILLI);
  return Number(whole) + Number(rest) / 1e6;
}

export function timestampOf(ms: number): Timestamp {
  const [seconds, nanos] = floorDivide(toNanos(ms), NANOS_PER_SECOND);
  return create(TimestampSchema, {seconds, nanos: Number(nanos)});
}

export function nanosOf(time: Timestamp | undefined): bigint {
  return time ? time.seconds * NANOS_PER_SECOND + BigInt(time.nanos) : 0n;
}

/** Milliseconds since 1970; 0 if `time` is not set. */
export function millisOf(time: Timestamp | undefined): number {
  return fromNanos(nanosOf(time));
}

/** @throws RangeError: not finite, or longer than 10,000 years. */
export function durationOf(ms: number): Duration {
  if (!Number.isFinite(ms) || Math.abs(ms) > 315_576_000_000_000) {
    throw new RangeError(`${ms} is not a duration in milliseconds.`);
  }
  const nanos = exactNanos(ms);
  return create(DurationSchema, {
    seconds: nanos / NANOS_PER_SECOND,
    nanos: Number(nanos % NANOS_PER_SECOND),
  });
}

function floorDivide(value: bigint, by: bigint): [bigint, bigint] {
  const rest = ((value % by) + by) % by;
  return [(value - rest) / by, rest];
}
