/**
 * An agent whose session survives its process: `node build/examples/agent.js [ADDRESS]`, after `npm run build`.
 *
 * Run it twice: the second run finds the first one's events and state. The model is scripted, so no network is needed.
 */

import {
  isFinalResponse,
  LlmAgent,
  Runner,
  stringifyContent,
  type Context,
} from '@google/adk';
import {increment, SessiondSessionService} from 'sessiond-adk';
import {ScriptedModel} from './scripted_model.js';

const address = process.argv[2] ?? '127.0.0.1:50051';
const key = {appName: 'example', userId: 'alice', sessionId: 'first'};

await using service = new SessiondSessionService(address);

const agent = new LlmAgent({
  name: 'greeter',
  model: new ScriptedModel(text => `You said: ${text}`),
  instruction: 'You greet {user:name?}. This is visit {visits}.',
  outputKey: 'last_answer',
  beforeAgentCallback: ({state}: Context) => {
    state.set('visits', state.get('visits', 0)! + 1);
    state.set('user:name', 'Alice');
    return undefined;
  },
});

// The one line: InMemorySessionService would work in its place.
const runner = new Runner({
  appName: key.appName,
  agent,
  sessionService: service,
});

await service.getOrCreateSession(key);
const newMessage = {role: 'user', parts: [{text: 'Hello!'}]};
for await (const event of runner.runAsync({...key, newMessage})) {
  const text = stringifyContent(event);
  if (isFinalResponse(event) && text) {
    console.log(`${event.author}: ${text}`);
  }
}

const session = (await service.getSession(key))!;
console.log(
  `visit ${session.state['visits']}, ${session.events.length} events`,
);

// Beyond ADK's interface: an increment that no concurrent writer can undo, and what the session was before it.
const tickets = await service.increment(session, 'app:tickets');
await service.updateState(key, {operations: [increment('app:tickets', -1)]});
const past = await service.getSessionAsOf({...key, sequence: 1});
console.log(
  `ticket ${tickets}; after its first event, the session had ${past!.events.length} event`,
);
