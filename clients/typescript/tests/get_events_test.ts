/** Events of a session by their ids and sequences. */

import {expect, test} from 'vitest';
import {
  SessiondInvalidError,
  SessiondNotFoundError,
  type StoredEvent,
} from '../src/index.js';
import {newKey, onEachStore, textEvent} from './support/fixtures.js';

onEachStore('events by ids and sequences', target => {
  async function session(texts: string[]) {
    const key = newKey();
    const {service} = target();
    const mine = await service.createSession(key);
    for (const [at, text] of texts.entries()) {
      const event = textEvent(text, {id: `e${at + 1}`});
      await service.appendEvent({session: mine, event});
    }
    return {key, service, mine};
  }

  test('are found in their order, also if they are rewound', async () => {
    const {key, service} = await session(['1', '2', '3', '4']);
    await service.rewindSession({...key, toSequence: 2});
    const refs = ['e4', 9, 2, 'none', 'e1', 2, 5, 3, 'e2', 9];
    const {found, missing} = await service.getEvents({...key, refs});
    expect(found.map(({sequence}) => sequence)).toEqual([4, 2, 1, 2, 5, 3, 2]);
    expect(missing).toEqual([9, 'none', 9]);
    const hidden = found.filter(({rewound}) => rewound);
    expect(hidden.map(({sequence}) => sequence)).toEqual([4, 5, 3]);
    const listed = new Map<number, StoredEvent>();
    for await (const one of service.listEvents({
      ...key,
      includeRewound: true,
    })) {
      listed.set(one.sequence, one);
    }
    expect(found).toEqual(found.map(({sequence}) => listed.get(sequence)));
  });

  test('are more than one request may name, or none', async () => {
    const {key, service} = await session(['1']);
    const refs = Array.from({length: 2400}, (_, at) => (at % 2 ? 1 : 'none'));
    const {found, missing} = await service.getEvents({...key, refs});
    expect(found.map(({event}) => event.id)).toEqual(Array(1200).fill('e1'));
    expect(missing).toEqual(Array(1200).fill('none'));
    expect(await service.getEvents({...key, refs: []})).toEqual({
      found: [],
      missing: [],
    });
  });

  test('take several pages', async () => {
    const texts = Array<string>(6).fill('x'.repeat(900_000));
    const {key, service, mine} = await session(texts);
    const refs = [6, 'none', 'e2', 4, 1, 'e3', 8, 'e5', 6];
    const {found, missing} = await service.getEvents({...key, refs});
    const order = [6, 2, 4, 1, 3, 5, 6];
    expect(found.map(({event}) => event.id)).toEqual(order.map(n => `e${n}`));
    expect(found[1]!.event).toEqual(mine.events[1]);
    expect(missing).toEqual(['none', 8]);
  });

  test('are refused', async () => {
    const {key, service} = await session([]);
    const refs = [1];
    await expect(
      service.getEvents({...key, sessionId: 'none', refs}),
    ).rejects.toThrow(SessiondNotFoundError);
    await expect(service.getEvents({...key, refs: ['']})).rejects.toThrow(
      SessiondInvalidError,
    );
    await expect(service.getEvents({...key, refs: [-1]})).rejects.toThrow(
      SessiondInvalidError,
    );
    for (const wrong of [1.5, 2 ** 63, NaN, Infinity]) {
      const reading = service.getEvents({...key, refs: [1, wrong]});
      await expect(reading).rejects.toThrow(RangeError);
      await expect(reading).rejects.toThrow(`${wrong} is not a sequence`);
    }
    for (const wrong of [true, null, undefined, 1n]) {
      const reading = service.getEvents({...key, refs: [1, wrong as never]});
      await expect(reading).rejects.toThrow(TypeError);
    }
  });
});
