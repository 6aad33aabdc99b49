/** Events come back as they were sent, and those of other programs as far as ADK can read them. */

import {createEvent, getLogger, LogLevel, setLogLevel} from '@google/adk';
import {expect, test, vi} from 'vitest';
import {
  newKey,
  onEachStore,
  plain,
  read,
  textEvent,
} from './support/fixtures.js';
import {fullEvent} from './support/full_event.js';
import {RawClient} from './support/raw.js';

const BRAND = Symbol.for('google.adk.event');
const SECONDS = 1_795_190_851n;

onEachStore('fidelity', target => {
  test('an event with every field set', async () => {
    const key = newKey();
    const session = await target().service.createSession(key);
    const event = fullEvent();
    const sent = plain(event);
    await target().service.appendEvent({session, event});
    const [stored] = (await read(target().service, key)).events;
    expect(stored).toEqual(fullEvent());
    expect(plain(stored)).toEqual(sent);
    expect(Object.keys(stored!).sort()).toEqual(
      Object.keys(sent as object).sort(),
    );
    expect((stored as unknown as Record<symbol, unknown>)[BRAND]).toBe(true);
  });

  test('the stored body has the canonical form, without the delta', async () => {
    const key = newKey();
    const raw = new RawClient(target().server.address);
    const session = await target().service.createSession(key);
    await target().service.appendEvent({session, event: fullEvent()});
    const [stored] = await raw.stored(key);
    const {startTime, endTime, compactedContent, route, ...members} =
      fullEvent() as unknown as Record<string, unknown>;
    const {stateDelta, ...actions} = fullEvent().actions;
    const compaction = {
      startTimestamp: Number(startTime) / 1000,
      endTimestamp: Number(endTime) / 1000,
      compactedContent: {role: 'model', parts: [{text: compactedContent}]},
    };
    expect(JSON.parse(String(stored?.bodyForm.value))).toEqual(
      plain({...members, actions: {...actions, route, compaction}}),
    );
    expect(stored).toMatchObject({
      eventId: 'event-1',
      invocationId: 'invocation-1',
      author: 'root',
      branch: 'root.one.two',
      eventTime: {seconds: SECONDS, nanos: 250_924_072},
    });
    const {stateDelta: delta} = stored!;
    expect(JSON.parse(String(delta?.setForm.value))).toEqual(plain(stateDelta));
    await raw.connections.close(0);
  });

  test.each([
    0, 1, 1_795_190_851_250, 1_795_190_851_250.9241, 0.1234567, -1.5,
    -62_135_596_800_000, 253_402_300_799_999,
  ])('the time %d', async timestamp => {
    const key = newKey();
    const session = await target().service.createSession(key);
    const event = textEvent('x');
    event.timestamp = timestamp;
    await target().service.appendEvent({session, event});
    const stored = await read(target().service, key);
    expect([
      stored.events[0]?.timestamp,
      stored.lastUpdateTime,
      session.lastUpdateTime,
    ]).toEqual([timestamp, timestamp, timestamp]);
  });

  test.each([NaN, Infinity, -62_135_596_800_001, 253_402_300_800_000])(
    'the time %d is refused',
    async timestamp => {
      const session = await target().service.createSession(newKey());
      const event = {...textEvent('x'), timestamp};
      await expect(
        target().service.appendEvent({session, event}),
      ).rejects.toThrow(RangeError);
      expect(session.events).toEqual([]);
    },
  );

  test('lone surrogates of a body are replaced', async () => {
    const key = newKey();
    const session = await target().service.createSession(key);
    // A text that was cut between the halves of an emoji.
    const text = `${'a😀'.slice(0, 2)} \\ud83d \\\ud83d ${'😀'.slice(1)} 😀`;
    const event = textEvent(text, {
      customMetadata: {['\udc00']: '\ud83d\ud83d'},
    });
    await target().service.appendEvent({session, event});
    await target().service.appendEvent({session, event});
    const {events} = await read(target().service, key);
    expect(events).toHaveLength(1);
    expect(events[0]?.content?.parts?.[0]?.text).toBe(
      'a\ufffd \\ud83d \\\ufffd \ufffd 😀',
    );
    expect(events[0]?.customMetadata).toEqual({'\ufffd': '\ufffd\ufffd'});
    expect(event.content?.parts?.[0]?.text).toBe(text);
  });

  test('an event without an author, and members named like those of Object', async () => {
    const key = newKey();
    const session = await target().service.createSession(key);
    const event = createEvent({
      customMetadata: JSON.parse('{"__proto__": 1, "constructor": 2}'),
    });
    event.actions.stateDelta = JSON.parse(
      '{"__proto__": {"polluted": 1}, "toString": 2}',
    );
    await target().service.appendEvent({session, event});
    const stored = await read(target().service, key);
    expect(stored.events[0]?.author).toBeFalsy();
    expect(JSON.stringify(stored.events[0]?.customMetadata)).toBe(
      '{"__proto__":1,"constructor":2}',
    );
    expect(Object.entries(stored.state).sort()).toEqual([
      ['__proto__', {polluted: 1}],
      ['toString', 2],
    ]);
    expect(Object.entries(session.state).sort()).toEqual(
      Object.entries(stored.state).sort(),
    );
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  test.each([
    ['{"content": "text"}', 'content'],
    ['{"content": {"parts": "text"}}', 'content.parts'],
    [
      '{"content": {"role": "user", "parts": [1, {"text": "kept"}]}}',
      'items of content.parts',
    ],
  ])('warns once of what it cannot read in %s', async (body, omitted) => {
    setLogLevel(LogLevel.WARN);
    const key = newKey();
    const raw = new RawClient(target().server.address);
    await target().service.createSession(key);
    await raw.append(key, body, {eventId: 'e1'});
    await raw.append(key, '{"actions": [], "custom": {"any": "thing"}}');
    const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
    const {events} = await read(target().service, key);
    expect(warn).toHaveBeenCalledExactlyOnceWith(
      `event e1: omitted what this version of ADK cannot read: ${omitted}`,
    );
    expect(events).toHaveLength(2);
    expect(events[0]?.content?.parts?.at(0)?.text ?? 'kept').toBe('kept');
    expect(events[1]).toMatchObject({
      custom: {any: 'thing'},
      actions: {stateDelta: {}},
    });
    await raw.connections.close(0);
  });

  test('only the members that ADK cannot read are left out, at any depth', async () => {
    const key = newKey();
    const raw = new RawClient(target().server.address);
    await target().service.createSession(key);
    const body = {
      content: {
        role: 'model',
        parts: [
          {text: 5, functionCall: {id: 'c1', name: 'f', args: [1]}},
          {functionResponse: 'text', thought: true},
          {functionResponse: {id: 'c2', name: 7, response: {ok: 1}}},
        ],
      },
      longRunningToolIds: ['c1', 2],
      usageMetadata: {promptTokenCount: '3', totalTokenCount: 7},
      nodeInfo: {path: 'wf', outputFor: ['a', null]},
      actions: {
        transferToAgent: {name: 'billing'},
        escalate: true,
        skipSummarization: null,
        artifactDelta: {'a.txt': 1, 'b.txt': 'two'},
        requestedAuthConfigs: {c1: {credentialKey: 'k'}, c2: null},
        requestedToolConfirmations: {
          c1: {hint: ['sure?'], confirmed: false, payload: [1]},
          c2: 'yes',
        },
        agentState: {input: 1},
        custom: [null, {any: 'thing'}],
      },
    };
    await raw.append(key, JSON.stringify(body), {eventId: 'e1'});
    const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
    const [event] = (await read(target().service, key)).events;
    expect(plain(event!.content)).toEqual({
      role: 'model',
      parts: [
        {functionCall: {id: 'c1', name: 'f'}},
        {thought: true},
        {functionResponse: {id: 'c2', response: {ok: 1}}},
      ],
    });
    expect(event).toMatchObject({
      longRunningToolIds: ['c1'],
      usageMetadata: {totalTokenCount: 7},
      nodeInfo: {path: 'wf', outputFor: ['a']},
    });
    expect(plain(event!.actions)).toEqual({
      stateDelta: {},
      escalate: true,
      artifactDelta: {'a.txt': 1},
      requestedAuthConfigs: {c1: {credentialKey: 'k'}},
      requestedToolConfirmations: {c1: {confirmed: false, payload: [1]}},
      agentState: {input: 1},
      custom: [null, {any: 'thing'}],
    });
    expect(warn).toHaveBeenCalledOnce();
    for (const path of [
      'content.parts[0].functionCall.args',
      'content.parts[1].functionResponse',
      'items of longRunningToolIds',
      'actions.transferToAgent',
      'actions.artifactDelta.b.txt',
      'actions.requestedAuthConfigs.c2',
      'actions.requestedToolConfirmations.c1.hint',
    ]) {
      expect(warn.mock.calls[0]?.[0]).toContain(path);
    }
    await raw.connections.close(0);
  });

  test('a logger of the application that fails ends neither a read nor an append', async () => {
    const key = newKey();
    const raw = new RawClient(target().server.address);
    const session = await target().service.createSession(key);
    await raw.append(key, '{"content": "text"}');
    vi.spyOn(getLogger(), 'warn').mockImplementation(() => {
      throw new Error('the disk of the logs is full');
    });
    const event = textEvent('\ud83d');
    event.actions.stateDelta = {k: '\ud83d'};
    await target().service.appendEvent({session, event});
    expect((await read(target().service, key)).events).toHaveLength(2);
    await raw.connections.close(0);
  });
});
