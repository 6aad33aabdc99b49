/** Texts of strangers: what does not show or changes the direction of a line is made visible. */

/** A piece of a text. `code`: the code point of a character that does not show. */
export interface Piece {
  text: string;
  code?: number;
}

// C0 and C1 but for tab and line feed, soft hyphen, direction marks, zero-width characters, separators, byte order mark,
// variation and tag characters out of an emoji, noncharacters and halves of surrogate pairs.
const HIDDEN = new RegExp(
  [
    '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5]',
    '[\\u180e\\u200b\\u200c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0]',
    '[\\ufff9-\\ufffb\\ufffe\\uffff\\u{e0000}-\\u{e0fff}\\p{Surrogate}]',
    // A joiner that joins no emoji.
    '(?<![\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f])\\u200d',
  ].join('|'),
  'gu',
);

/** Splits a text at the characters that do not show. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > end) {
      found.push({text: text.slice(end, match.index)});
    }
    const code = match[0].codePointAt(0) ?? 0;
    found.push({text: `\\u{${code.toString(16)}}`, code});
    end = match.index + match[0].length;
  }
  if (end < text.length) {
    found.push({text: text.slice(end)});
  }
  return found;
}

/** A text for attributes and titles, which hold no elements. */
export function plain(text: string, length = 200): string {
  const shown = pieces(cut(text, length)).map(piece => piece.text);
  // The direction of the text ends with it.
  return `\u2068${shown.join('').replace(/\s+/g, ' ')}\u2069`;
}

/** At most so many characters, never half of one. */
export function cut(text: string, length: number): string {
  if (text.length <= length) {
    return text;
  }
  const end = /[\ud800-\udbff]/.test(text[length - 1] ?? '') ? length - 1 : length;
  return `${text.slice(0, end)}…`;
}

const BASE64 = /^(?:[A-Za-z0-9+/]+={0,2}|[A-Za-z0-9_-]+={0,2})$/;

/** The number of bytes of a text that can only be base64, or `undefined`. */
export function base64Bytes(text: string): number | undefined {
  const isLikely =
    text.length >= 120 && /\d/.test(text.slice(0, 400)) && !/^[0-9a-f]+$/i.test(text);
  if (!isLikely || !BASE64.test(text)) {
    return undefined;
  }
  return Math.floor((text.replace(/=+$/, '').length * 3) / 4);
}

export function bytesText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

const TIME = new Intl.DateTimeFormat(undefined, {
  ...{year: 'numeric', month: 'short', day: '2-digit'},
  ...{hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'},
});
const CLOCK = new Intl.DateTimeFormat(undefined, {
  ...{hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'},
});

export function timeText(time: string | undefined): string {
  return time ? TIME.format(new Date(time)) : '';
}

export function clockText(time: string | undefined): string {
  return time ? CLOCK.format(new Date(time)) : '';
}

const UNITS: [number, string][] = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
  [1, 's'],
];

/** `3 h ago`, `in 2 d`. */
export function agoText(time: string | undefined, now: number): string {
  if (!time) {
    return '';
  }
  const seconds = Math.round((now - Date.parse(time)) / 1000);
  const [size, unit] = UNITS.find(([size]) => Math.abs(seconds) >= size) ?? [1, 's'];
  const amount = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
  return seconds >= 0 ? `${amount} ago` : `in ${amount}`;
}

export function countText(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}
