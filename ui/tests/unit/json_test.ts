import {expect, test} from 'vitest';
import {nestedJson, parseJson, pathOf, Raw, sameJson, tryJson, writeJson} from '../../src/json.js';

test.each([
  '12345678901234567890',
  '-0.10',
  '1.000000000000000000001',
  '1E400',
  '{"10":1,"9":{"__proto__":null}}',
  '["\\u0000\\ud83d", true, "a\\"b"]',
  '[]',
])('%s comes back with every digit and in its order', text => {
  const written = writeJson(parseJson(text));
  expect(JSON.parse(written)).toEqual(JSON.parse(text));
  expect(written.replace(/[\s]|\\u\w{4}/g, '')).toBe(text.replace(/[\s]|\\u\w{4}/g, ''));
});

test.each(['', '{', '[1,]', '{"a":1,}', '01', 'nul', '"\n"', '[1] 2', "{'a':1}"])(
  '%j is no JSON',
  text => {
    expect(tryJson(text)).toBeUndefined();
  },
);

test('of members with the same name the last one counts', () => {
  expect(parseJson('{"a":1,"a":2}')).toEqual(new Map([['a', new Raw('2')]]));
});

test('text that nests too deep is no JSON, and does not overflow the stack', () => {
  expect(tryJson('['.repeat(500_000) + ']'.repeat(500_000))).toBeUndefined();
  expect(tryJson('['.repeat(150) + ']'.repeat(150))).toBeDefined();
});

test('a text of a megabyte is read', () => {
  expect(parseJson(JSON.stringify(['w'.repeat(1 << 20)]))).toEqual(['w'.repeat(1 << 20)]);
});

test('values are the same if their text is', () => {
  expect(sameJson(parseJson('{"a": [1]}'), parseJson('{"a":[1]}'))).toBe(true);
  expect(sameJson(parseJson('1'), parseJson('12345678901234567890'))).toBe(false);
});

test('JSON is written with margins', () => {
  const text = '{\n  "a": [\n    1\n  ],\n  "b": {}\n}';
  expect(writeJson(parseJson(text), 2)).toBe(text);
});

test('only objects and lists count as JSON within a text', () => {
  expect(nestedJson('{"a":1}')).toBeDefined();
  for (const text of ['1', '"a"', '[link]', 'true', '{a}']) {
    expect(nestedJson(text)).toBeUndefined();
  }
});

test('paths are those of jq', () => {
  const parts = ['content', 'parts', 0, 'odd name', '__proto__'];
  expect(parts.reduce(pathOf, '')).toBe('.content.parts[0]["odd name"].__proto__');
});
