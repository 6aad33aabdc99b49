/** Compactions as the other ADKs write them, read by this one. */

import {
  getLogger,
  isCompactedEvent,
  LlmAgent,
  Runner,
  stringifyContent,
} from '@google/adk';
import {expect, test, vi} from 'vitest';
import {readBody} from '../src/canonical.js';
import {fromNanos} from '../src/times.js';
import {newKey, onEachStore, read} from './support/fixtures.js';
import {said, ScriptedModel} from './support/model.js';
import {RawClient} from './support/raw.js';

/** 2026-11-26T09:00:00Z, 09:30:00.25 and 09:31:00. */
const [START, END, WRITTEN] = [1_795_683_600, 1_795_685_400.25, 1_795_685_460];
const OTHERS = {transferToAgent: 'billing', escalate: true};

/** A body whose summary is `compactedContent`. */
function compacted(compactedContent: unknown) {
  const compaction = {
    startTimestamp: START,
    endTimestamp: END,
    compactedContent,
  };
  const artifactDelta = {'refund.pdf': 2};
  return {timestamp: WRITTEN, actions: {compaction, artifactDelta, ...OTHERS}};
}

const SUMMARY = {
  role: 'model',
  parts: [{text: 'hm', thought: true}, {text: 'They '}, {text: 'spoke.'}],
};

/** What this ADK writes before a summary. */
const HEADING = '[Previous Context Summary]:\n';

test.each([
  ['1795685400.123', 1_795_685_400_123],
  ['1795685400.122999907', fromNanos(1_795_685_400_122_999_907n)],
  ['2.5', 2_500],
  ['1795685460000', 1_795_685_460_000],
  ['"1970-01-01T00:00:02.5Z"', 2_500],
])('a time of %s is %d milliseconds', (time, ms) => {
  const content = JSON.stringify(SUMMARY);
  const compaction = `{"startTimestamp":${time},"endTimestamp":${time},"compactedContent":${content}}`;
  const body = `{"actions":{"compaction":${compaction}}}`;
  expect(readBody('e1', body)).toMatchObject({startTime: ms, endTime: ms});
});

onEachStore('compactions', target => {
  async function setUp() {
    const key = newKey();
    const raw = new RawClient(target().server.address);
    await target().service.createSession(key);
    let number = 0;
    const append = (seconds: number, body: unknown) =>
      raw.append(key, JSON.stringify(body), {
        eventId: `e${++number}`,
        author: 'user',
        eventTime: {
          seconds: BigInt(Math.floor(seconds)),
          nanos: Math.round((seconds % 1) * 1e9),
        },
      });
    const say = (seconds: number, text: string) =>
      append(seconds, {content: {role: 'user', parts: [{text}]}});
    /** The texts that the model sees in the next turn. */
    const seen = async () => {
      const model = new ScriptedModel(said('fine'));
      const runner = new Runner({
        appName: key.appName,
        agent: new LlmAgent({name: 'a', model}),
        sessionService: target().service,
      });
      const newMessage = {role: 'user', parts: [{text: 'go'}]};
      for await (const event of runner.runAsync({...key, newMessage})) {
        void event;
      }
      return model.asked[0]?.texts;
    };
    const dispose = () => raw.connections.close(0);
    return {key, append, say, seen, [Symbol.asyncDispose]: dispose};
  }

  test('of another ADK', async () => {
    await using all = await setUp();
    const {key, append, say, seen} = all;
    await say(START, 'old');
    await say(END, 'the last that is summarized');
    await say(END + 0.001, 'later');
    await append(WRITTEN, compacted(SUMMARY));
    const warn = vi.spyOn(getLogger(), 'warn');
    const {events} = await read(target().service, key);
    expect(warn).not.toHaveBeenCalled();
    expect(events[3]).toMatchObject({
      isCompacted: true,
      startTime: START * 1000,
      endTime: END * 1000,
      compactedContent: 'They spoke.',
      content: {role: 'model', parts: [{text: 'They spoke.'}]},
      timestamp: WRITTEN * 1000,
      actions: {artifactDelta: {'refund.pdf': 2}, ...OTHERS},
    });
    expect(await seen()).toEqual([`${HEADING}They spoke.`, 'later', 'go']);
  });

  test('every summary that no later one covers reaches the model', async () => {
    await using all = await setUp();
    const {key, append, say, seen} = all;
    const compact = (from: number, to: number, text: string) =>
      append(to + 100, {
        timestamp: to + 100,
        actions: {
          compaction: {
            startTimestamp: from,
            endTimestamp: to,
            compactedContent: {role: 'model', parts: [{text}]},
          },
        },
      });
    await say(START, 'one');
    await say(START + 1, 'two');
    await compact(START, START + 1, 'covered');
    await compact(START, START + 1, 'first');
    await say(START + 2, 'three');
    await compact(START + 1, START + 2, 'second');
    await say(START + 3, 'four');
    await compact(START + 3, START + 3, 'third');
    expect(await seen()).toEqual([`${HEADING}first\nsecond\nthird`, 'go']);
    const newest = (await read(target().service, key)).events.findLast(
      isCompactedEvent,
    );
    expect(stringifyContent(newest!)).toBe('first\nsecond\nthird');
  });

  test('a content of the event itself stays', async () => {
    await using all = await setUp();
    const {key, append, seen} = all;
    const {actions} = compacted(SUMMARY);
    const content = {role: 'model', parts: [{functionCall: {name: 'f'}}]};
    await append(WRITTEN, {timestamp: WRITTEN, content, actions});
    const [event] = (await read(target().service, key)).events;
    expect(event!.content).toEqual(content);
    expect(await seen()).toEqual([`${HEADING}They spoke.`, 'go']);
  });

  test.each([
    'text',
    {},
    {startTimestamp: 1, endTimestamp: 2},
    {startTimestamp: 1, endTimestamp: 2, compactedContent: {parts: []}},
    {startTimestamp: 1, endTimestamp: 'noon', compactedContent: SUMMARY},
    {endTimestamp: 2, compactedContent: SUMMARY},
  ])(
    'what cannot take the place of events is left out alone: %j',
    async compaction => {
      await using all = await setUp();
      const {key, append, say, seen} = all;
      await say(0.5, 'old');
      await append(WRITTEN, {actions: {...OTHERS, compaction}});
      const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
      const [, event] = (await read(target().service, key)).events;
      expect(warn).toHaveBeenCalledExactlyOnceWith(
        'event e2: omitted what this version of ADK cannot read: actions.compaction',
      );
      expect(event!.actions).toMatchObject(OTHERS);
      expect(event!.actions).not.toHaveProperty('compaction');
      expect(isCompactedEvent(event!)).toBe(false);
      expect(await seen()).toEqual(['old', 'go']);
    },
  );
});
