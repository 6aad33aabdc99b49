/**
 * One of several agents on one session: `node build/examples/together.js ADDRESS APP USER SESSION COMMAND [ARGUMENT…]`.
 *
 * * `turn TEXT`: runs one turn of an agent with a scripted model, which also writes the state key `typescript:turn`.
 * * `increment N`: increments `user:turns` N times.
 * * `dump`: prints the session as one JSON object.
 * * `bodies`: prints what this ADK reads in the bodies of the events.
 * * `compactions`: prints the compactions that this ADK reads.
 * * `put KEY JSON`: sets a state key.
 */

import {
  LlmAgent,
  Runner,
  getFunctionCalls,
  getFunctionResponses,
  isCompactedEvent,
  isFinalResponse,
  stringifyContent,
  type Context,
  type Session,
} from '@google/adk';
import {SessiondSessionService} from 'sessiond-adk';
import {ScriptedModel} from './scripted_model.js';

const LANGUAGE = 'typescript';
const USAGE =
  'Usage: together ADDRESS APP USER SESSION turn TEXT | increment N | dump | bodies | compactions | put KEY JSON';

const [
  address = '',
  appName = '',
  userId = '',
  sessionId = '',
  command = '',
  ...rest
] = process.argv.slice(2);
const key = {appName, userId, sessionId};

/** The session, which must exist. */
async function read(service: SessiondSessionService): Promise<Session> {
  const session = await service.getSession(key);
  if (!session) {
    throw new Error(`There is no session ${JSON.stringify(key)}.`);
  }
  return session;
}

async function turn(
  service: SessiondSessionService,
  text: string,
): Promise<void> {
  const agent = new LlmAgent({
    name: LANGUAGE,
    model: new ScriptedModel(heard => `${LANGUAGE} heard ${heard}`),
    beforeAgentCallback: ({state}: Context) => {
      state.set(`${LANGUAGE}:turn`, text);
      return undefined;
    },
  });
  const runner = new Runner({appName, agent, sessionService: service});
  const newMessage = {role: 'user', parts: [{text}]};
  for await (const event of runner.runAsync({...key, newMessage})) {
    if (event.errorCode) {
      throw new Error(`The turn failed: ${event.errorMessage}`);
    }
  }
}

async function increment(
  service: SessiondSessionService,
  count: number,
): Promise<void> {
  const session = await read(service);
  for (let number = 0; number < count; number++) {
    await service.increment(session, 'user:turns');
  }
}

async function dump(service: SessiondSessionService): Promise<void> {
  const {events, state} = await read(service);
  const lines = events.map(event => ({
    id: event.id,
    author: event.author,
    text: stringifyContent(event),
  }));
  console.log(JSON.stringify({events: lines, state}));
}

/** Prints what ADK's own functions read in the bodies. */
async function bodies(service: SessiondSessionService): Promise<void> {
  const {events} = await read(service);
  const found = events.map(event => ({
    author: event.author,
    role: event.content?.role,
    text: stringifyContent(event),
    calls: getFunctionCalls(event).map(({id, name, args}) => ({
      id,
      name,
      args,
    })),
    responses: getFunctionResponses(event).map(({id, name, response}) => ({
      id,
      name,
      response,
    })),
    tokens: event.usageMetadata?.totalTokenCount ?? 0,
    artifacts: event.actions.artifactDelta,
    final: isFinalResponse(event),
  }));
  console.log(JSON.stringify(found));
}

/** Prints the compactions that ADK's own functions read, in milliseconds, and what is beside them. */
async function compactions(service: SessiondSessionService): Promise<void> {
  const {events} = await read(service);
  const found = events.map(event => {
    const compaction = isCompactedEvent(event) ? event : undefined;
    return {
      start: compaction?.startTime ?? null,
      end: compaction?.endTime ?? null,
      text: compaction?.compactedContent ?? null,
      transfer: event.actions.transferToAgent ?? null,
      artifacts: event.actions.artifactDelta,
    };
  });
  console.log(JSON.stringify(found));
}

async function put(
  service: SessiondSessionService,
  name: string,
  json: string,
): Promise<void> {
  await service.change(
    await read(service),
    {values: {[name]: JSON.parse(json)}},
    {author: LANGUAGE},
  );
}

await using service = new SessiondSessionService(address, {timeoutMs: 60_000});
switch (command) {
  case 'turn':
    await turn(service, rest[0] ?? '');
    break;
  case 'increment':
    await increment(service, Number(rest[0]));
    break;
  case 'dump':
    await dump(service);
    break;
  case 'bodies':
    await bodies(service);
    break;
  case 'compactions':
    await compactions(service);
    break;
  case 'put':
    await put(service, rest[0] ?? '', rest[1] ?? '');
    break;
  default:
    console.error(USAGE);
    process.exitCode = 2;
}
