/** A conversation of a real Runner, to compare session services. */

import {
  FunctionTool,
  LlmAgent,
  Runner,
  type BaseSessionService,
  type CompositeSessionKey,
  type Context,
  type Event,
  type LlmResponse,
} from '@google/adk';
import {z} from 'zod';
import {called, said, ScriptedModel} from './model.js';

const order = new FunctionTool({
  name: 'order',
  description: 'Writes to every scope.',
  parameters: z.object({dish: z.string(), count: z.number()}),
  execute: ({dish, count}, context) => {
    const {state} = context!;
    state.set('basket', {...state.get('basket', {}), [dish]: count});
    state.set('user:favourite', dish);
    state.set('app:orders', state.get('app:orders', 0)! + 1);
    state.set('temp:draft', {dish});
    return {
      dish,
      inDraft: state.get<{dish: string}>('temp:draft')?.dish,
      nothing: null,
    };
  },
});

const forget = new FunctionTool({
  name: 'forget',
  description: 'Sets a key to null, which stores a null.',
  parameters: z.object({}),
  execute: (_, context) => {
    context!.state.set('basket', null);
    return {
      favourite: context!.state.get('user:favourite'),
      draft: context!.state.get('temp:draft'),
    };
  },
});

const note = new FunctionTool({
  name: 'note',
  description: 'Writes keys of its own. Several calls run in parallel.',
  parameters: z.object({text: z.string(), key: z.string()}),
  execute: ({text, key}, context) => {
    context!.state.set(key, text);
    context!.state.set(`user:${key}`, [
      text,
      1,
      2.5,
      true,
      null,
      {deep: [{er: 1e20}]},
    ]);
    return {key};
  },
});

function beforeAgent({state}: Context): undefined {
  // The state management guide's own example.
  state.set('login_count', state.get('login_count', 0)! + 1);
  state.update({
    task_status: 'active',
    'user:last_login_ts': 1_795_190_851,
    'temp:validation_needed': true,
  });
  state.set('app:turns', state.get('app:turns', 0)! + 1);
}

function afterAgent({state}: Context): undefined {
  state.set('saw_temp', state.get('temp:validation_needed'));
}

export const TURNS: [string, LlmResponse[]][] = [
  ['hello', [said('Good day.', 'A greeting.')]],
  [
    'two soups',
    [called(['order', {dish: 'soup', count: 2}]), said('Two soups, noted.')],
  ],
  [
    'remember three things',
    [
      called(
        ['note', {text: 't0', key: 'note0'}],
        ['note', {text: 't1', key: 'note1'}],
        ['note', {text: 't2', key: 'note2'}],
      ),
      said('Three things.'),
    ],
  ],
  [
    'and a tea, then forget',
    [
      called(['order', {dish: 'tea', count: 1}]),
      called(['forget', {}]),
      said('Done.'),
    ],
  ],
];

/** Runs every turn, and returns what can be seen after each. */
export async function converse(
  service: BaseSessionService,
  key: CompositeSessionKey,
  between: (turn: number) => Promise<void> = async () => {},
): Promise<Record<string, unknown>[]> {
  const model = new ScriptedModel();
  const agent = new LlmAgent({
    name: 'waiter',
    model,
    instruction:
      'Favourite: {user:favourite?}. Login {login_count}. Orders: {app:orders?}. Said: {last?}.',
    outputKey: 'last',
    tools: [order, forget, note],
    beforeAgentCallback: beforeAgent,
    afterAgentCallback: afterAgent,
  });
  const runner = new Runner({
    appName: key.appName,
    agent,
    sessionService: service,
  });
  await service.createSession({...key, state: {basket: {}, 'temp:gone': 1}});
  const other = {...key, sessionId: 'other'};
  await service.createSession(other);
  const seen = [];
  for (const [turn, [text, responses]] of TURNS.entries()) {
    model.script(...responses);
    const events: Event[] = [];
    const newMessage = {role: 'user', parts: [{text}]};
    const stateDelta = {[`turn${turn}`]: text, 'temp:turn': turn};
    for await (const event of runner.runAsync({
      ...key,
      newMessage,
      stateDelta,
    })) {
      events.push(event);
    }
    await between(turn);
    const session = (await service.getSession(key))!;
    seen.push({
      yielded: events.map(comparable),
      events: session.events.map(comparable),
      state: session.state,
      other: (await service.getSession(other))!.state,
      timely: session.lastUpdateTime === session.events.at(-1)?.timestamp,
      asked: [...model.asked],
    });
  }
  return seen;
}

/** An event without what is random or a time. */
export function comparable(event: Event): unknown {
  const text = JSON.stringify({
    ...event,
    id: '',
    invocationId: '',
    timestamp: 0,
  });
  return JSON.parse(text.replace(/adk-[0-9a-f-]{36}/g, 'call'));
}
