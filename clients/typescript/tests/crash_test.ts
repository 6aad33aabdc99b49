/** A server that is killed and restarted: nothing lost, nothing doubled. */

import {InMemorySessionService} from '@google/adk';
import {expect, test} from 'vitest';
import {increment} from '../src/index.js';
import {converse} from './support/conversation.js';
import {deltaEvent, ids, newKey, read} from './support/fixtures.js';
import {connect, Server} from './support/server.js';

// An attempt for every moment that a server may be away, on machines however busy.
const PATIENT = {retry: {attempts: 100_000, maxDelayMs: 50}};

test('between two turns', async () => {
  await using server = await Server.start('sqlite:test.db');
  await using service = connect(server.address, PATIENT);
  const key = newKey();
  const expected = await converse(new InMemorySessionService(), key);
  const crash = async () => {
    await server.kill();
    await server.startAgain();
  };
  expect(await converse(service, key, crash)).toEqual(expected);
});

test('a turn waits for a server that is away', async () => {
  await using server = await Server.start('sqlite:test.db');
  await using service = connect(server.address, PATIENT);
  const key = newKey();
  const session = await service.createSession(key);
  await server.kill();
  const append = service.appendEvent({
    session,
    event: deltaEvent({a: 1}, {id: 'e1'}),
  });
  await server.startAgain();
  await append;
  expect(await read(service, key)).toEqual(session);
});

test('in the middle of appends', async () => {
  await using server = await Server.start('sqlite:test.db');
  await using service = connect(server.address, PATIENT);
  const key = newKey();
  await service.createSession(key);
  const writers = 4;
  const appends = 60;
  let acknowledged = 0;
  const write = async (writer: number): Promise<string[]> => {
    const session = await read(service, key);
    for (let number = 0; number < appends; number++) {
      const event = deltaEvent(
        {[`w${writer}`]: number},
        {id: `${writer}-${number}`},
      );
      await service.appendEvent({
        session,
        event,
        operations: [increment('app:n')],
      });
      acknowledged++;
    }
    return ids(session);
  };
  const writing = Promise.all(
    Array.from({length: writers}, (_, writer) => write(writer)),
  );
  // A failure of a writer ends the test below.
  writing.catch(() => (acknowledged = Infinity));
  for (const after of [20, 60, 110, 170, 220]) {
    await expect
      .poll(() => acknowledged, {interval: 1})
      .toBeGreaterThanOrEqual(after);
    await server.kill();
    await server.startAgain();
  }
  const own = await writing;
  const stored = await read(service, key);
  expect(ids(stored).sort()).toEqual(own.flat().sort());
  expect(stored.events).toHaveLength(writers * appends);
  expect(stored.state).toEqual({
    w0: 59,
    w1: 59,
    w2: 59,
    w3: 59,
    'app:n': writers * appends,
  });
  own.forEach((mine, writer) => {
    expect(ids(stored).filter(id => id.startsWith(`${writer}-`))).toEqual(mine);
  });
  // Each increment took effect once, in the order of the log.
  const sums = stored.events.map(({actions}) => actions.stateDelta['app:n']);
  expect(sums).toEqual(
    Array.from({length: writers * appends}, (_, at) => at + 1),
  );
});
