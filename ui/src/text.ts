/** Texts of strangers: what does not show or changes the direction of a line is made visible. */

interface Piece {
  text: string;
  /** A character that would not show. */
  isControl: boolean;
}

// C0 and C1 but for tab and line feed, soft hyphen, direction marks, zero-width characters,
// separators, byte order mark, tags, noncharacters, halves of surrogate pairs, and joiners that join
// no emoji.
const HIDDEN = new RegExp(
  // eslint-disable-next-line no-misleading-character-class
  [
    '[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e]',
    '[\\u034f\\u200b\\u200c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0]',
    '[\\ufff9-\\ufffb\\ufffe\\uffff\\u{e0000}-\\u{e0fff}\\p{Surrogate}]',
    '(?<![\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f])\\u200d',
  ].join('|'),
  'gu',
);

/** Splits a text at the characters that do not show, and writes those as `\u{202e}`. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  const add = (text: string, isControl: boolean) => text && found.push({text, isControl});
  for (const {0: hidden, index} of text.matchAll(HIDDEN)) {
    add(text.slice(end, index), false);
    add(`\\u{${hidden.codePointAt(0)?.toString(16)}}`, true);
    end = index + hidden.length;
  }
  add(text.slice(end), false);
  return found;
}

/** A text for attributes and titles, which hold no elements. Its direction ends with it. */
export function plain(text: string, length = 200): string {
  const shown = pieces(cut(text, length)).map(piece => piece.text);
  return `\u2068${shown.join('').replace(/\s+/g, ' ')}\u2069`;
}

/** Truncates a text to `length` characters, never within one. */
export function cut(text: string, length: number): string {
  if (text.length <= length) {
    return text;
  }
  const end = /[\ud800-\udbff]/.test(text[length - 1] ?? '') ? length - 1 : length;
  return `${text.slice(0, end)}…`;
}

const BASE64 = /^(?=.{0,400}\d)(?![0-9a-fA-F]+$)(?:[A-Za-z0-9+/]{120,}|[\w-]{120,})={0,2}$/;

/** The number of bytes of a text that is likely base64, or `undefined`. */
export function base64Bytes(text: string): number | undefined {
  return BASE64.test(text) ? Math.floor((text.replace(/=+$/, '').length * 3) / 4) : undefined;
}

export function bytesText(bytes: number): string {
  const [size, unit] = bytes < 1 << 20 ? [1 << 10, 'KiB'] : [1 << 20, 'MiB'];
  return bytes < 1 << 10 ? countText(bytes, 'byte') : `${(bytes / size).toFixed(1)} ${unit}`;
}

const CLOCK = {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'} as const;
const DAY = {year: 'numeric', month: 'short', day: '2-digit'} as const;
const CLOCK_FORMAT = new Intl.DateTimeFormat(undefined, CLOCK);
const TIME_FORMAT = new Intl.DateTimeFormat(undefined, {...DAY, ...CLOCK});

export function timeText(time: string | number | undefined, format = TIME_FORMAT): string {
  return time ? format.format(new Date(time)) : '';
}

export function clockText(time: string | number | undefined): string {
  return timeText(time, CLOCK_FORMAT);
}

const UNITS = {d: 86_400, h: 3600, min: 60, s: 1};

/** `3 h ago`, `in 2 d`. */
export function agoText(time: string | undefined, now: number): string {
  if (!time) {
    return '';
  }
  const seconds = Math.round((now - Date.parse(time)) / 1000);
  const size = Math.abs(seconds);
  const [name, unit] = Object.entries(UNITS).find(([, unit]) => size >= unit) ?? ['s', 1];
  const amount = `${Math.floor(size / unit)} ${name}`;
  return seconds >= 0 ? `${amount} ago` : `in ${amount}`;
}

export function countText(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}
