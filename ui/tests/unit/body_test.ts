import {readFileSync} from 'node:fs';
import {expect, test} from 'vitest';
import {readBody, summaryOf} from '../../src/body.js';
import {adkEvent, adkFile, completeFile, stampOf} from '../../src/download.js';
import {writeJson} from '../../src/json.js';

interface Case {
  name: string;
  body: object;
  canonical: object;
}
const CASES = new URL('../../../clients/cases/bodies/variants.json', import.meta.url);
/** Each body in the form of one ADK, and in the canonical form. */
const cases = JSON.parse(readFileSync(CASES, 'utf8')) as Case[];

test.each(cases.map(it => [it.name, it] as const))(
  '%s says what its canonical form says',
  (_, it) => {
    const read = (body: object) => {
      const {parts, facts, error} = readBody(JSON.stringify(body));
      return {facts, error, parts: parts.filter(part => part.kind !== 'other')};
    };
    expect(read(it.body)).toEqual(read(it.canonical));
  },
);

test('a call keeps its numbers', () => {
  const body =
    '{"content":{"parts":[{"functionCall":{"name":"f","args":{"n":12345678901234567890}}}]}}';
  const [part] = readBody(body).parts;
  expect(part?.kind === 'call' && writeJson(part.args)).toBe('{"n":12345678901234567890}');
});

test('a body that is no object, or of another client, is shown as it is', () => {
  expect(readBody('[1]').parts).toEqual([]);
  const foreign = readBody('{"text":"hello","n":1}');
  expect(foreign.parts.map(part => part.kind)).toEqual(['text', 'other']);
  expect(summaryOf(foreign)).toBe('hello');
});

const event = {
  eventId: 'e1',
  sequence: '1',
  author: 'a',
  eventTime: '2026-01-02T03:04:05.000000007Z',
  stateDelta: {setJson: '{"k": 1.00}', remove: ['gone']},
  bodyJson: '{"content":{"parts":[{"text":"a","later":1}],"other":2},"actions":{"unknown":1}}',
};

test("an event in ADK's form has nothing that ADK refuses", () => {
  expect(writeJson(adkEvent(event))).toBe(
    '{"id":"e1","timestamp":1767323045.000000007,"author":"a",' +
      '"content":{"parts":[{"text":"a"}]},"actions":{"stateDelta":{"k":1.00}}}',
  );
});

test('a file of ADK leaves out what a rewind hides, and a complete one has it byte for byte', () => {
  const session = {key: {appName: 'a', userId: 'u', sessionId: 's'}, stateJson: '{"k":1.00}'};
  const marker = {eventId: 'm', sequence: '2', rewindToSequence: '0', rewound: true};
  const contents = {session, created: {}, events: [{...event, rewound: true}, marker]};
  expect(JSON.parse(adkFile(contents)).events).toEqual([]);
  const complete = completeFile(contents);
  expect(complete).toContain(event.bodyJson);
  expect(JSON.parse(complete).sessiond.hidden[1]).toEqual({
    ...{sequence: 2, event_id: 'm', rewind_to_sequence: 0},
  });
});

test('times keep their nanoseconds', () => {
  expect(stampOf('1970-01-01T00:00:01.5Z').text).toBe('1.5');
  expect(stampOf('1969-12-31T23:59:58.500Z').text).toBe('-1.5');
  expect(stampOf('2026-01-01T00:00:00Z').text).toBe('1767225600.0');
});
