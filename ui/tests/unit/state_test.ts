import {expect, test} from 'vitest';
import {callOf, resultOf} from '../../src/body.js';
import {Heights} from '../../src/list.js';
import {compare, readState, scopeOf} from '../../src/state.js';
import {hitOf} from '../../src/views/find.js';

test('states are compared key by key, with exact numbers', () => {
  const before = readState('{"a":1,"b":12345678901234567890,"c":null}');
  const after = readState('{"b":12345678901234567891,"c":null,"d":{}}');
  const changes = compare(before, after).map(({key, change}) => [key, change]);
  expect(changes).toEqual([
    ['a', 'removed'],
    ['b', 'changed'],
    ['c', 'same'],
    ['d', 'added'],
  ]);
});

test('a prefix selects the scope', () => {
  expect(['app:x', 'user:', 'x', 'App:x', 'apple'].map(scopeOf)).toEqual([
    ...['application', 'user', 'session', 'session', 'session'],
  ]);
});

test('rows of 100,000 events are found by their place, and hidden ones are skipped', () => {
  const heights = new Heights(100);
  heights.resize(100_000);
  expect(heights.total).toBe(10_000_000);
  expect(heights.rowAt(5_000_050)).toBe(50_000);
  heights.set(0, 150);
  for (let row = 10; row < 20; row += 1) {
    heights.set(row, 0);
  }
  expect(heights.rowAt(heights.top(20))).toBe(20);
  expect(heights.top(20)).toBe(heights.top(10));
  heights.resize(5);
  expect([heights.total, heights.rowAt(9999)]).toEqual([550, 4]);
});

const event = (sequence: number, part: object, invocationId = 'i') => ({
  sequence: String(sequence),
  invocationId,
  bodyJson: JSON.stringify({content: {parts: [part]}}),
});

test('a result belongs to its call by id, or by name within the invocation', () => {
  const all = [
    event(1, {functionCall: {id: 'c', name: 'f'}}),
    event(2, {functionResponse: {id: 'other', name: 'f', response: {}}}),
    event(3, {functionResponse: {id: 'c', name: 'f', response: {result: 1}}}),
    event(4, {functionCall: {name: 'g'}}),
    event(5, {functionResponse: {name: 'g'}}, 'j'),
    event(6, {functionResponse: {name: 'g'}}),
  ];
  const events = {get: (sequence: number) => all[sequence - 1]};
  const call = (id: string, name: string) => ({id, name, args: null, isLong: false});
  expect(resultOf(events, 1, call('c', 'f'))?.sequence).toBe(3);
  expect(resultOf(events, 4, call('', 'g'))?.sequence).toBe(6);
  expect(callOf(events, 3, {id: 'c', name: 'f', response: null})?.sequence).toBe(1);
  expect(callOf(events, 5, {id: '', name: 'g', response: null})).toBeUndefined();
});

test('text is found in whatever case, also behind escapes of JSON', () => {
  const found = (text: string) => hitOf(event(1, {text: 'Größe "XL"\nrest'}), text)?.place;
  expect(found('größe')).toBe('body');
  expect(found('"xl"\nrest')).toBe('body');
  expect(found('absent')).toBeUndefined();
});
