/** Bodies of events: the canonical form, its variants, and what ADK cannot read. The cases are in clients/cases. */

import {create} from '@bufbuild/protobuf';
import {getLogger, type Event} from '@google/adk';
import {readFileSync} from 'node:fs';
import {describe, expect, test, vi} from 'vitest';
import {decodeEvent, encodeEvent} from '../src/events.js';
import {EventSchema} from '../src/gen/sessiond/v1/types_pb.js';

type Json = Record<string, unknown>;

interface Case {
  readonly name: string;
  readonly body: Json;
  readonly canonical: Json;
  readonly kept: Json;
  readonly lost?: Record<string, string[]>;
  readonly except?: string[];
}

function cases(file: string): Case[] {
  const url = new URL(`../../cases/bodies/${file}`, import.meta.url);
  const all = JSON.parse(readFileSync(url, 'utf8')) as Case[];
  return all.filter(({except}) => !except?.includes('typescript'));
}

/** The event that ADK has of a stored body. */
function decoded(body: Json): Event {
  return decodeEvent(
    create(EventSchema, {
      eventId: 'e',
      invocationId: 'i',
      author: 'a',
      branch: 'a.b',
      eventTime: {seconds: 1_795_690_000n},
      bodyForm: {case: 'bodyJson', value: JSON.stringify(body)},
    }),
  );
}

describe('bodies', () => {
  test.each(cases('canonical.json'))(
    'in the canonical form: $name',
    ({canonical}) => {
      const warn = vi.spyOn(getLogger(), 'warn');
      const {bodyForm} = encodeEvent(decoded(canonical)).message;
      expect(JSON.parse(String(bodyForm.value))).toMatchObject(canonical);
      expect(warn).not.toHaveBeenCalled();
    },
  );

  test.each(cases('variants.json'))(
    'in a variant: $name',
    ({body, canonical}) => {
      const warn = vi.spyOn(getLogger(), 'warn');
      expect(decoded(body)).toEqual(decoded(canonical));
      expect(warn).not.toHaveBeenCalled();
    },
  );

  test.each(cases('unreadable.json'))(
    'that ADK cannot read whole: $name',
    ({body, kept}) => {
      expect(decoded(body)).toEqual(decoded(kept));
    },
  );
});
