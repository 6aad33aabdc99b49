/**
 * Measures appends and reads: `node build/benchmarks/measure.js ADDRESS`, after `npm run build`, with a server on SQLite.
 *
 * ADK's memory service runs beside, to show what of a call is ADK's own work in this process.
 */

import {
  createEvent,
  createEventActions,
  InMemorySessionService,
  type BaseSessionService,
  type Session,
} from '@google/adk';
import {SessiondSessionService} from 'sessiond-adk';

const EVENTS = 200;
const RECENT = 20;
const SECONDS = 3;
const TEXT = 'x'.repeat(1024);
const appName = `benchmark-${Date.now()}`;

/** Repeats `call` in `callers` loops for some seconds. Returns calls per second and the median in milliseconds. */
async function measure(
  callers: number,
  call: (caller: number) => Promise<unknown>,
): Promise<string> {
  const times: number[] = [];
  const begin = performance.now();
  const loop = async (caller: number) => {
    while (performance.now() - begin < SECONDS * 1000) {
      const start = performance.now();
      await call(caller);
      times.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({length: callers}, (_, caller) => loop(caller)));
  times.sort((one, other) => one - other);
  const perSecond = Math.round(
    (times.length / (performance.now() - begin)) * 1000,
  );
  return `${perSecond}/s, p50 ${times[times.length >> 1]?.toFixed(2)} ms`;
}

async function append(
  service: BaseSessionService,
  session: Session,
): Promise<void> {
  const number = session.events.length;
  const event = createEvent({
    author: 'agent',
    content: {role: 'model', parts: [{text: TEXT}]},
    actions: createEventActions({
      stateDelta: {number, 'user:number': number, 'app:number': number},
    }),
  });
  await service.appendEvent({session, event});
}

async function compare(
  name: string,
  service: BaseSessionService,
): Promise<void> {
  for (const callers of [1, 16]) {
    const sessions = await Promise.all(
      Array.from({length: callers}, (_, caller) =>
        service.createSession({
          appName,
          userId: `${name}-${callers}-${caller}`,
        }),
      ),
    );
    await Promise.all(
      sessions.map(async session => {
        for (let number = 0; number < EVENTS; number++) {
          await append(service, session);
        }
      }),
    );
    const reads = await measure(callers, caller => {
      const {userId, id: sessionId} = sessions[caller]!;
      return service.getSession({
        appName,
        userId,
        sessionId,
        config: {numRecentEvents: RECENT},
      });
    });
    const fresh = await Promise.all(
      sessions.map(({userId}) => service.createSession({appName, userId})),
    );
    const appends = await measure(callers, caller =>
      append(service, fresh[caller]!),
    );
    console.log(
      `${name}, ${callers} callers: getSession ${reads}; appendEvent ${appends}`,
    );
  }
}

await using service = new SessiondSessionService(process.argv[2]);
await compare('sessiond', service);
await compare('memory', new InMemorySessionService());
