/**
 * JSON texts of state values.
 *
 * The server returns every value byte for byte as it was stored. A text can
 * say more than JavaScript holds: `JSON.parse` rounds integers beyond 2^53 and
 * makes 1 of 1.0. Texts are therefore kept beside the values, and what an agent
 * has not changed is sent back as the text that it was.
 */

import {StateValueError} from './errors.js';
import {warn} from './log.js';

/** Lone surrogates as JSON.stringify writes them: an escape behind an even number of backslashes. */
const LONE_SURROGATES = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/** A text of JSON.stringify with U+FFFD for each lone surrogate, which UTF-8 cannot encode, and a warning if there is one. */
export function toWellFormed(text: string, where: string): string {
  const mended = text.replace(LONE_SURROGATES, '$1\ufffd');
  if (mended !== text) {
    warn(`${where}: replaced halves of surrogate pairs with U+FFFD`);
  }
  return mended;
}

/** @throws StateValueError: UTF-8 cannot encode the key. Another one must not take its place. */
export function refuseIllFormedKey(key: string): void {
  if (!key.isWellFormed()) {
    throw new StateValueError(key, 'the key contains half of a surrogate pair');
  }
}

/** The JSON text of a value, or undefined if it has none. */
export function textOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** The text that JavaScript would write for the value of `text`. */
export function canonical(text: string): string {
  return JSON.stringify(JSON.parse(text));
}

/**
 * The JSON text of a state value.
 *
 * Converts as ADK's `DatabaseSessionService` does (dates to ISO 8601, members
 * that are undefined vanish), and refuses what that service would lose. Texts
 * with half of a surrogate pair are mended, as in bodies. Parts that equal those
 * of `before`, the stored text, keep its spelling.
 *
 * @param mended gets the key if its value was mended.
 * @throws StateValueError: the value has no JSON form.
 */
export function encodeValue(
  key: string,
  value: unknown,
  before?: string,
  mended?: Set<string>,
): string {
  refuseIllFormedKey(key);
  let text: string | undefined;
  try {
    text = JSON.stringify(value, refuseLossy);
  } catch (error) {
    throw new StateValueError(
      key,
      error instanceof Error ? error.message : String(error),
    );
  }
  if (text === undefined) {
    throw new StateValueError(key, `${typeof value} has no JSON form`);
  }
  const wellFormed = toWellFormed(text, `state key ${JSON.stringify(key)}`);
  if (wellFormed !== text) {
    mended?.add(key);
  }
  return before === undefined ? wellFormed : keepSpelling(wellFormed, before);
}

/** A replacer that throws where JSON.stringify would lose a value without a word. */
function refuseLossy(this: unknown, member: string, value: unknown): unknown {
  // Before a toJSON method, if there is one.
  const original = (this as Record<string, unknown>)[member];
  const at = member ? ` (at '${member}')` : '';
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError(`${value} has no JSON form${at}`);
  }
  if (['function', 'symbol', 'bigint'].includes(typeof value)) {
    throw new TypeError(`a ${typeof value} has no JSON form${at}`);
  }
  if (original instanceof Map || original instanceof Set) {
    throw new TypeError(
      `a ${original.constructor.name} has no JSON form${at}; use an object or an array`,
    );
  }
  if (ArrayBuffer.isView(original) || original instanceof ArrayBuffer) {
    throw new TypeError(`bytes have no JSON form${at}; use a base64 string`);
  }
  return value;
}

/** `text`, with the parts that equal those of `before` spelled as there. */
function keepSpelling(text: string, before: string): string {
  if (text === before || text === canonical(before)) {
    return before;
  }
  const kind = text.charAt(0);
  if (kind !== before.trimStart().charAt(0)) {
    return text;
  }
  if (kind === '{') {
    const old = splitObject(before);
    const members = [...splitObject(text)].map(([name, member]) => {
      const known = old.get(name);
      return [
        name,
        known === undefined ? member : keepSpelling(member, known),
      ] as const;
    });
    return joinObject(members);
  }
  if (kind === '[') {
    const old = splitArray(before);
    const items = splitArray(text).map((item, at) => {
      const known = old[at];
      return known === undefined ? item : keepSpelling(item, known);
    });
    return `[${items.join(',')}]`;
  }
  return text;
}

/** A JSON object of values that are JSON texts already. */
export function joinObject(
  members: Iterable<readonly [string, string]>,
): string {
  const texts = [...members].map(
    ([name, text]) => `${JSON.stringify(name)}:${text}`,
  );
  return `{${texts.join(',')}}`;
}

/** The texts of the members of a JSON object. Of equal names, the last one. */
export function splitObject(text: string): Map<string, string> {
  const members = new Map<string, string>();
  for (const part of splitParts(text)) {
    const end = stringEnd(part, 0);
    const name = JSON.parse(part.slice(0, end)) as string;
    const colon = part.indexOf(':', end);
    members.set(name, part.slice(colon + 1).trim());
  }
  return members;
}

function splitArray(text: string): string[] {
  return splitParts(text);
}

/** The parts between the commas of a valid JSON object or array. */
function splitParts(text: string): string[] {
  const parts: string[] = [];
  const structural = /["[\]{},]/g;
  let depth = 0;
  let begin = 0;
  for (let found; (found = structural.exec(text));) {
    const {index} = found;
    const char = text.charAt(index);
    if (char === '"') {
      structural.lastIndex = stringEnd(text, index);
      continue;
    }
    const closes = char === '}' || char === ']';
    if (depth === 1 && (closes || char === ',')) {
      const part = text.slice(begin, index).trim();
      if (part) {
        parts.push(part);
      }
      begin = index + 1;
    }
    if (closes) {
      depth--;
    } else if (char !== ',') {
      depth++;
      if (depth === 1) {
        begin = index + 1;
      }
    }
  }
  return parts;
}

/** The offset right after the string literal at `at`. */
function stringEnd(text: string, at: number): number {
  let end = at;
  do {
    end = text.indexOf('"', end + 1);
  } while (end > 0 && isEscaped(text, end));
  if (end < 0) {
    throw new SyntaxError('A string of a JSON text does not end.');
  }
  return end + 1;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === '\\') {
    backslashes++;
  }
  return backslashes % 2 === 1;
}
