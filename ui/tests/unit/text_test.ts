import {expect, test} from 'vitest';
import {agoText, base64Bytes, bytesText, cut, pieces, plain} from '../../src/text.js';

test.each([
  ['\u202eevil', '\\u{202e}'],
  ['a\u0000b', '\\u{0}'],
  ['\u009b', '\\u{9b}'],
  ['\ufeff', '\\u{feff}'],
  ['\u{e0041}', '\\u{e0041}'],
  ['\ud83d', '\\u{d83d}'],
  ['a\u200db', '\\u{200d}'],
])('%j is shown with %s', (text, shown) => {
  const found = pieces(text).filter(piece => piece.isControl);
  expect(found.map(piece => piece.text)).toEqual([shown]);
});

test('emoji, line feeds and other scripts stay', () => {
  const text = 'שלום\n\t👩\u200d🚀 é';
  expect(pieces(text)).toEqual([{text, isControl: false}]);
});

test('a text is never cut within a character', () => {
  expect(cut('ab😀', 3)).toBe('ab…');
  expect(cut('abc', 3)).toBe('abc');
});

test('the direction of a plain text ends with it', () => {
  expect(plain('\u202ea\n b')).toBe('\u2068\\u{202e}a b\u2069');
});

test('base64 is told from words and hashes', () => {
  expect(base64Bytes('QUJD1234'.repeat(20))).toBe(120);
  expect(base64Bytes('w'.repeat(1000))).toBeUndefined();
  expect(base64Bytes('0123456789abcdef'.repeat(10))).toBeUndefined();
  expect(bytesText(1536)).toBe('1.5 KiB');
});

test('times are told from now', () => {
  const now = Date.parse('2026-01-02T00:00:00Z');
  expect(agoText('2026-01-01T00:00:00Z', now)).toBe('1 d ago');
  expect(agoText('2026-01-02T00:05:00Z', now)).toBe('in 5 min');
});
