/** A real Runner: state and events are the same through sessiond and through ADK's memory service. */

import {
  AgentTool,
  FunctionTool,
  InMemorySessionService,
  LlmAgent,
  ParallelAgent,
  Runner,
  State,
  TrajectoryThoughtPruningCompactor,
  TruncatingContextCompactor,
  type BaseAgent,
  type BaseSessionService,
  type CompositeSessionKey,
  type Event,
} from '@google/adk';
import {expect, test, vi} from 'vitest';
import {z} from 'zod';
import {SessiondAlreadyExistsError} from '../src/index.js';
import {comparable, converse} from './support/conversation.js';
import {ids, newKey, onEachStore, read, textEvent} from './support/fixtures.js';
import {called, said, ScriptedModel} from './support/model.js';

/** Runs one turn and returns what the runner yields. */
async function run(
  service: BaseSessionService,
  key: CompositeSessionKey,
  agent: BaseAgent,
  text = 'go',
): Promise<Event[]> {
  const runner = new Runner({
    appName: key.appName,
    agent,
    sessionService: service,
  });
  const events = [];
  for await (const event of runner.runAsync({
    ...key,
    newMessage: {role: 'user', parts: [{text}]},
  })) {
    events.push(event);
  }
  return events;
}

onEachStore('runner', target => {
  test('a conversation equals that of the memory service', async () => {
    const key = newKey();
    const expected = await converse(new InMemorySessionService(), key);
    expect(await converse(target().service, key)).toEqual(expected);
  });

  test('the script covers what it compares', async () => {
    const seen = await converse(target().service, newKey());
    expect(seen[1]).toMatchObject({
      state: {
        basket: {soup: 2},
        'app:orders': 1,
        task_status: 'active',
        login_count: 2,
      },
      other: {'user:favourite': 'soup', 'app:turns': 2},
    });
    expect(seen[2]).toMatchObject({
      state: {
        note2: 't2',
        last: 'Three things.',
        saw_temp: true,
        turn2: 'remember three things',
      },
    });
    expect(JSON.stringify(seen[2]!['asked'])).toContain(
      'Favourite: soup. Login 3. Orders: 1. Said: Two soups, noted..',
    );
    expect(seen[3]).toMatchObject({state: {basket: null}, timely: true});
    expect(JSON.stringify(seen.at(-1)!['events'])).not.toContain('temp:');
    expect(
      Object.keys(seen[3]!['state'] as object).filter(name =>
        name.startsWith('temp:'),
      ),
    ).toEqual([]);
  });

  test('parallel agents append to one session object at once', async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession(key);
    const subAgents = Array.from({length: 5}, (_, at) => {
      const set = new FunctionTool({
        name: 'set',
        description: 'Writes a key of its own and one that all write.',
        parameters: z.object({}),
        execute: (_args, context) => {
          context!.state.set(`k${at}`, at);
          context!.state.set('app:all', at);
          return {at};
        },
      });
      return new LlmAgent({
        name: `a${at}`,
        model: new ScriptedModel(called(['set', {}]), said(`done ${at}`)),
        tools: [set],
        outputKey: `out${at}`,
      });
    });
    const yielded = await run(
      service,
      key,
      new ParallelAgent({name: 'all', subAgents}),
    );
    const stored = await read(service, key);
    expect(ids(stored).slice(1).sort()).toEqual(
      yielded.map(({id}) => id).sort(),
    );
    for (let at = 0; at < 5; at++) {
      expect(stored.state).toMatchObject({
        [`k${at}`]: at,
        [`out${at}`]: `done ${at}`,
      });
    }
  });

  test("an agent tool's session has the parent's state, sorted by prefix", async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession({...key, state: {own: 1, 'user:u': 2}});
    const inner = new LlmAgent({
      name: `inner_${key.appName.replace('-', '_')}`,
      description: 'inner',
      model: new ScriptedModel(said('inner says')),
      outputKey: 'inner_out',
    });
    const outer = new LlmAgent({
      name: 'outer',
      model: new ScriptedModel(
        called([inner.name, {request: 'x'}]),
        said('outer says'),
      ),
      tools: [new AgentTool({agent: inner})],
    });
    const events = await run(service, key, outer);
    expect(JSON.stringify(events)).toContain('inner says');
    expect((await read(service, key)).state).toMatchObject({
      own: 1,
      'user:u': 2,
    });
  });

  test('a compactor that rewrites stored events changes the caller and not the log', async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession(key);
    const model = new ScriptedModel(
      said('one', 'thought one'),
      said('two', 'thought two'),
      said('three'),
    );
    const agent = () =>
      new LlmAgent({
        name: 'a',
        model,
        outputKey: 'out',
        contextCompactors: [
          new TrajectoryThoughtPruningCompactor({eventRetentionSize: 1}),
        ],
      });
    await run(service, key, agent(), 'first');
    await run(service, key, agent(), 'second');
    const list = vi.spyOn(service['client'], 'listEvents');
    const yielded = await run(service, key, agent(), 'third');
    // The rewritten events are known to be stored, so the server is not asked.
    expect(list).not.toHaveBeenCalled();
    expect(yielded.length).toBeGreaterThan(1);
    const stored = await read(service, key);
    expect(stored.events).toHaveLength(6);
    expect(JSON.stringify(stored.events)).toContain('thought one');
    expect(JSON.stringify(model.asked.at(-1))).not.toContain('thought');
    expect(stored.state['out']).toBe('three');
  });

  test('a rewritten event of a session that was read elsewhere', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const event = textEvent('original', {id: 'e1', invocationId: 'i'});
    event.actions.stateDelta = {k: 'old', 'temp:t': 1};
    await service.appendEvent({session, event});
    const copy = structuredClone({...session, events: []});
    copy.state['k'] = 'newer';
    const rewritten = {
      ...textEvent('rewritten', {
        id: 'e1',
        invocationId: 'i',
        timestamp: event.timestamp,
      }),
      author: 'user',
    };
    rewritten.actions.stateDelta = {k: 'old'};
    Object.assign(copy, {events: [rewritten]});
    await service.appendEvent({session: copy, event: rewritten});
    expect(copy.state['k']).toBe('newer');
    expect(
      (await read(service, key)).events[0]?.content?.parts?.[0]?.text,
    ).toBe('original');
    // In the list as well, but another event than the stored one.
    const collision = textEvent('collision', {id: 'e1', invocationId: 'other'});
    Object.assign(copy, {events: [collision]});
    await expect(
      service.appendEvent({session: copy, event: collision}),
    ).rejects.toThrow(SessiondAlreadyExistsError);
  });

  test('an event that is in the list before it is stored', async () => {
    const {service} = target();
    const key = newKey();
    const session = await service.createSession(key);
    const compacted = textEvent('summary', {id: 'new'});
    session.events.push(compacted);
    await service.appendEvent({session, event: compacted});
    expect(ids(session)).toEqual(['new']);
    expect(ids(await read(service, key))).toEqual(['new']);
  });

  test('a truncated list of events does not disturb the log', async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession(key);
    for (const text of ['1', '2', '3', '4']) {
      const agent = new LlmAgent({
        name: 'a',
        model: new ScriptedModel(said(`re ${text}`)),
        contextCompactors: [
          new TruncatingContextCompactor({
            triggerThreshold: 3,
            preserveLeadingUserTurns: 0,
            preserveTrailingUserTurns: 1,
          } as never),
        ],
      });
      await run(service, key, agent, text);
    }
    expect((await read(service, key)).events).toHaveLength(8);
  });

  test('runs an ephemeral session and removes it', async () => {
    const {service} = target();
    const {appName} = newKey();
    const agent = new LlmAgent({
      name: 'a',
      model: new ScriptedModel(said('hi')),
    });
    const runner = new Runner({appName, agent, sessionService: service});
    const events = [];
    for await (const event of runner.runEphemeral({
      userId: 'u',
      newMessage: {parts: [{text: 'x'}]},
    })) {
      events.push(comparable(event));
    }
    expect(JSON.stringify(events)).toContain('hi');
    expect((await service.listSessions({appName})).totalItems).toBe(0);
  });

  test('a background job changes state during a turn', async () => {
    const {service} = target();
    const key = newKey();
    await service.createSession({...key, state: {job: 'waiting'}});
    const job = await read(service, key);
    const wait = new FunctionTool({
      name: 'wait',
      description: 'Waits for the job.',
      parameters: z.object({}),
      execute: async () => {
        const event = textEvent('job', {author: 'job'});
        new State(job.state, event.actions.stateDelta).set('job', 'done');
        await service.appendEvent({session: job, event});
        return {};
      },
    });
    const model = new ScriptedModel(called(['wait', {}]), said('ok'));
    const agent = new LlmAgent({
      name: 'a',
      model,
      tools: [wait],
      instruction: 'Job: {job}.',
    });
    await run(service, key, agent);
    expect(
      model.asked.map(
        ({instruction}) => String(instruction).match(/Job: \w+/)?.[0],
      ),
    ).toEqual(['Job: waiting', 'Job: done']);
    expect((await read(service, key)).events.map(({author}) => author)).toEqual(
      ['user', 'a', 'job', 'a', 'a'],
    );
  });
});
