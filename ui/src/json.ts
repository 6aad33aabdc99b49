/**
 * JSON without loss: numbers keep every digit, and members keep their order.
 *
 * `JSON.parse` rounds integers beyond 2^53, and moves members with numeric names to the front.
 */

/** A number, or other JSON, as its text. */
export class Raw {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | string | Raw | Json[] | JsonObject;
export type JsonObject = Map<string, Json>;

/** The server takes 100 levels. JSON text within texts may have more, and is then shown as text. */
const MAX_DEPTH = 200;
/** What a text of JSON is made of, without commas, colons and white space. */
const TOKENS = /[{}[\]]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s{}[\],:"]+/g;

/** Parses JSON text. Of members with the same name, the last one counts. Throws a SyntaxError. */
export function parseJson(text: string): Json {
  // It throws if the text is no JSON, so that the reader below need not check it.
  JSON.parse(text);
  const tokens = text.matchAll(TOKENS);
  const next = () => (tokens.next().value as RegExpExecArray)[0];
  const read = (token: string, depth: number): Json => {
    if (depth > MAX_DEPTH) {
      throw new SyntaxError(`JSON may have ${MAX_DEPTH} levels.`);
    }
    if (token === '[') {
      const list: Json[] = [];
      for (let item = next(); item !== ']'; item = next()) {
        list.push(read(item, depth + 1));
      }
      return list;
    }
    if (token === '{') {
      const object: JsonObject = new Map();
      for (let name = next(); name !== '}'; name = next()) {
        object.set(JSON.parse(name) as string, read(next(), depth + 1));
      }
      return object;
    }
    return /^[-\d]/.test(token) ? new Raw(token) : (JSON.parse(token) as Json);
  };
  return read(next(), 0);
}

/** The value of a text, or `undefined` if it is no JSON. */
export function tryJson(text = ''): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Writes JSON text: on one line, or indented by `indent` spaces. */
export function writeJson(json: Json, indent = 0, margin = ''): string {
  if (json instanceof Raw) {
    return json.text;
  }
  if (!(json instanceof Map) && !Array.isArray(json)) {
    return JSON.stringify(json);
  }
  const inner = margin + ' '.repeat(indent);
  const name = (text: string) => JSON.stringify(text) + (indent ? ': ' : ':');
  const isList = Array.isArray(json);
  const items = isList
    ? json.map(value => writeJson(value, indent, inner))
    : [...json].map(([key, value]) => name(key) + writeJson(value, indent, inner));
  const [open, close] = isList ? '[]' : '{}';
  const isFlat = !indent || items.length === 0;
  const text = isFlat ? items.join(',') : `\n${inner}${items.join(`,\n${inner}`)}\n${margin}`;
  return `${open}${text}${close}`;
}

/** The exact form of what `JSON.parse` gave. */
export function toJson(value: unknown): Json {
  return parseJson(JSON.stringify(value));
}

export type Member = [string, Json | undefined];

/** An object of the members that have a value. */
export function object(members: Member[]): JsonObject {
  return new Map(members.filter((it): it is [string, Json] => it[1] !== undefined));
}

export function objectOf(json: Json | undefined): JsonObject {
  return json instanceof Map ? json : new Map<string, Json>();
}

/** Whether two values have the same text but for white space. */
export function sameJson(a: Json, b: Json): boolean {
  return a === b || writeJson(a) === writeJson(b);
}

/** JSON text within a text: an object or a list. */
export function nestedJson(text: string): Json | undefined {
  return /^\s*[[{]/.test(text) && /[\]}]\s*$/.test(text) ? tryJson(text) : undefined;
}

/** A member's place, as jq writes it: `.content.parts[0]["odd name"]`. */
export function pathOf(parent: string, name: string | number): string {
  if (typeof name === 'string' && /^[A-Za-z_]\w*$/.test(name)) {
    return `${parent}.${name}`;
  }
  return `${parent}[${JSON.stringify(name)}]`;
}
