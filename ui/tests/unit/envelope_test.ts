import {expect, test} from 'vitest';
import {EnvelopeReader, writeEnvelope, type Envelope} from '../../src/api.js';

function stream(): Uint8Array {
  const end = writeEnvelope('{}');
  end[0] = 2;
  const parts = [writeEnvelope('{"a":"é"}'), writeEnvelope('x'.repeat(70_000)), end];
  return new Uint8Array(parts.flatMap(part => [...part]));
}

test.each([1, 2, 4, 5, 6, 1000, 65_536, 1 << 20])('pieces of %i bytes are joined', size => {
  const bytes = stream();
  const reader = new EnvelopeReader();
  const found: Envelope[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    found.push(...reader.push(bytes.slice(at, at + size)));
  }
  expect(found.map(envelope => envelope.text.length)).toEqual([9, 70_000, 2]);
  expect(found[0]).toEqual({text: '{"a":"é"}', isEnd: false});
  expect(found[2]?.isEnd).toBe(true);
});
