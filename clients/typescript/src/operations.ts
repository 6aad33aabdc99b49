/** State operations that the server evaluates inside the commit, so that no concurrent update is lost. */

import {create} from '@bufbuild/protobuf';
import {
  StateDeltaSchema,
  StateOperationSchema,
  type StateDelta,
  type StateOperation,
} from './gen/sessiond/v1/types_pb.js';
import {encodeValue, joinObject, refuseIllFormedKey} from './json.js';
import {encodeDelta, type DeltaTexts} from './state.js';

/** An operation on one key, whose prefix picks the scope. Made by `increment`, `appendToList` and so on. */
export type Operation =
  | {kind: 'increment'; key: string; by: number | bigint}
  | {
      kind: 'appendToList';
      key: string;
      values: readonly unknown[];
      maxLength: number;
    }
  | {kind: 'setIfAbsent'; key: string; value: unknown}
  | {kind: 'mergePatch'; key: string; patch: Readonly<Record<string, unknown>>}
  | {kind: 'remove'; key: string};

/** Adds to a number. A missing key counts as 0. A fraction makes the value a double. */
export function increment(key: string, by: number | bigint = 1): Operation {
  return {kind: 'increment', key, by};
}

/** Appends to a list and keeps its newest `maxLength` items (0: all). A missing key counts as []. */
export function appendToList(
  key: string,
  values: readonly unknown[],
  maxLength = 0,
): Operation {
  return {kind: 'appendToList', key, values, maxLength};
}

/** Sets a key that has no value. null is a value. */
export function setIfAbsent(key: string, value: unknown): Operation {
  return {kind: 'setIfAbsent', key, value};
}

/** Merges into an object (RFC 7396): null removes a member. A missing key counts as {}. */
export function mergePatch(
  key: string,
  patch: Readonly<Record<string, unknown>>,
): Operation {
  return {kind: 'mergePatch', key, patch};
}

/** Removes a key. A missing key is no error. */
export function remove(key: string): Operation {
  return {kind: 'remove', key};
}

/**
 * State changes that are applied together: `values` first, then `operations` in
 * their order. A removal takes effect before the other operations, wherever it
 * stands. A value that is undefined removes its key.
 */
export interface Delta {
  readonly values?: Readonly<Record<string, unknown>>;
  readonly operations?: readonly Operation[];
}

/**
 * The delta as a message.
 *
 * @throws StateValueError: a value has no JSON form.
 * @throws RangeError: an increment does not fit into 64 bits.
 */
export function deltaMessage(
  texts: DeltaTexts,
  operations: readonly Operation[],
): StateDelta {
  operations.forEach(({key}) => refuseIllFormedKey(key));
  const removed = operations.flatMap(one =>
    one.kind === 'remove' ? [one.key] : [],
  );
  const message = create(StateDeltaSchema, {
    remove: [...texts.remove, ...removed],
    operations: operations
      .filter(one => one.kind !== 'remove')
      .map(operationMessage),
  });
  if (texts.set.size > 0) {
    message.setForm = {case: 'setJson', value: joinObject(texts.set)};
  }
  return message;
}

/** As `deltaMessage`, of a delta whose values are not encoded yet. */
export function encodeWholeDelta(delta: Delta): StateDelta {
  return deltaMessage(encodeDelta(delta.values ?? {}), delta.operations ?? []);
}

function operationMessage(
  operation: Exclude<Operation, {kind: 'remove'}>,
): StateOperation {
  const {key} = operation;
  const message = create(StateOperationSchema, {key});
  switch (operation.kind) {
    case 'increment':
      message.operation = {
        case: 'increment',
        value: {
          $typeName: 'sessiond.v1.Increment',
          amount: amountOf(operation),
        },
      };
      break;
    case 'appendToList':
      message.operation = {
        case: 'listAppend',
        value: {
          $typeName: 'sessiond.v1.ListAppend',
          valuesForm: {
            case: 'valuesJson',
            value: encodeValue(key, [...operation.values]),
          },
          maxLength: operation.maxLength,
        },
      };
      break;
    case 'setIfAbsent':
      message.operation = {
        case: 'setIfAbsent',
        value: {
          $typeName: 'sessiond.v1.SetIfAbsent',
          valueForm: {
            case: 'valueJson',
            value: encodeValue(key, operation.value),
          },
        },
      };
      break;
    case 'mergePatch':
      message.operation = {
        case: 'mergePatch',
        value: {
          $typeName: 'sessiond.v1.MergePatch',
          patchForm: {
            case: 'patchJson',
            value: encodeValue(key, {...operation.patch}),
          },
        },
      };
      break;
    default:
      throw new TypeError(
        `${String((operation as {kind: unknown}).kind)} is not an operation. ` +
          'Use increment, appendToList, setIfAbsent, mergePatch or remove.',
      );
  }
  return message;
}

/** Whole numbers are integers, as JSON.stringify writes them. */
function amountOf({key, by}: {key: string; by: number | bigint}) {
  if (typeof by === 'number' && !Number.isInteger(by)) {
    // Refuses NaN, infinities and what is not a number, with the key in the message.
    encodeValue(key, by);
    return {case: 'byDouble', value: by} as const;
  }
  const whole = BigInt(by);
  if (whole !== BigInt.asIntN(64, whole)) {
    throw new RangeError(
      `The increment of '${key}' is ${by}. It must fit into 64 bits.`,
    );
  }
  return {case: 'by', value: whole} as const;
}
