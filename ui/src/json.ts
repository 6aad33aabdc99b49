/**
 * JSON without loss: numbers keep every digit, and members keep their order.
 *
 * `JSON.parse` rounds integers beyond 2^53, and moves members with numeric names to the front.
 */

/** A number, as its text. */
export class Num {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | string | Num | Json[] | JsonObject;
export type JsonObject = Map<string, Json>;

/** The server takes 100 levels. JSON text within texts may have more, and is then shown as text. */
const MAX_DEPTH = 200;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*"/y;
const LITERALS: [string, Json][] = [
  ['true', true],
  ['false', false],
  ['null', null],
];

/** Parses JSON text. Of members with the same name, the last one counts. Throws a SyntaxError. */
export function parseJson(text: string): Json {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.end();
  return value;
}

/** The value of a text, or `undefined` if it is no JSON. */
export function tryJson(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

class Reader {
  #at = 0;

  constructor(readonly text: string) {}

  value(depth: number): Json {
    if (depth > MAX_DEPTH) {
      throw this.#fault();
    }
    this.#take(SPACE);
    const first = this.text[this.#at];
    if (first === '{') {
      return this.#object(depth);
    }
    if (first === '[') {
      return this.#array(depth);
    }
    if (first === '"') {
      return this.#string();
    }
    for (const [name, value] of LITERALS) {
      if (this.text.startsWith(name, this.#at)) {
        this.#at += name.length;
        return value;
      }
    }
    return new Num(this.#take(NUMBER) || this.#fail());
  }

  end(): void {
    this.#take(SPACE);
    if (this.#at < this.text.length) {
      throw this.#fault();
    }
  }

  #object(depth: number): JsonObject {
    const object: JsonObject = new Map();
    this.#list('}', () => {
      const name = this.#string();
      if (!this.#next(':')) {
        throw this.#fault();
      }
      object.set(name, this.value(depth + 1));
    });
    return object;
  }

  #array(depth: number): Json[] {
    const array: Json[] = [];
    this.#list(']', () => array.push(this.value(depth + 1)));
    return array;
  }

  #list(end: string, item: () => void): void {
    this.#at += 1;
    if (this.#next(end)) {
      return;
    }
    do {
      this.#take(SPACE);
      item();
    } while (this.#next(','));
    if (!this.#next(end)) {
      throw this.#fault();
    }
  }

  #string(): string {
    const raw = this.#take(STRING) || this.#fail();
    return raw.includes('\\') ? (JSON.parse(raw) as string) : raw.slice(1, -1);
  }

  #next(character: string): boolean {
    this.#take(SPACE);
    const found = this.text[this.#at] === character;
    this.#at += found ? 1 : 0;
    return found;
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.#at += found.length;
    return found;
  }

  #fail(): never {
    throw this.#fault();
  }

  #fault(): SyntaxError {
    const end = this.#at >= this.text.length;
    return new SyntaxError(end ? 'The JSON ends too early.' : `No JSON at character ${this.#at}.`);
  }
}

/** Writes JSON text: on one line, or indented by `indent` spaces. */
export function writeJson(json: Json, indent = 0, margin = ''): string {
  if (json instanceof Num) {
    return json.text;
  }
  if (!(json instanceof Map) && !Array.isArray(json)) {
    return JSON.stringify(json);
  }
  const inner = margin + ' '.repeat(indent);
  const [open, close] = json instanceof Map ? ['{', '}'] : ['[', ']'];
  const colon = indent ? ': ' : ':';
  const items =
    json instanceof Map
      ? [...json].map(([name, value]) => {
          return JSON.stringify(name) + colon + writeJson(value, indent, inner);
        })
      : json.map(value => writeJson(value, indent, inner));
  if (items.length === 0) {
    return open + close;
  }
  return indent
    ? `${open}\n${inner}${items.join(`,\n${inner}`)}\n${margin}${close}`
    : open + items.join(',') + close;
}

/** The exact form of what `JSON.parse` gave. */
export function toJson(value: unknown): Json {
  if (Array.isArray(value)) {
    return value.map(toJson);
  }
  if (typeof value === 'object' && value !== null) {
    return new Map(Object.entries(value).map(([name, member]) => [name, toJson(member)]));
  }
  return typeof value === 'number' ? new Num(String(value)) : (value as null | boolean | string);
}

export function isObject(json: Json | undefined): json is JsonObject {
  return json instanceof Map;
}

/** Whether two values have the same text but for white space. */
export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && writeJson(a) === writeJson(b));
}

/** JSON text within a text: an object or a list. */
export function nestedJson(text: string): Json | undefined {
  return /^\s*[[{]/.test(text) && /[\]}]\s*$/.test(text) ? tryJson(text) : undefined;
}

/** A member's place, as jq writes it: `.content.parts[0]["odd name"]`. */
export function pathOf(parent: string, name: string | number): string {
  if (typeof name === 'number') {
    return `${parent}[${name}]`;
  }
  return /^[A-Za-z_]\w*$/.test(name) ? `${parent}.${name}` : `${parent}[${JSON.stringify(name)}]`;
}
