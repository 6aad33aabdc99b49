/** A client that uses the wire contract alone: `node build/conversation.js [ADDRESS]`. */

import {randomUUID} from 'node:crypto';
import {setTimeout as sleep} from 'node:timers/promises';
import {create} from '@bufbuild/protobuf';
import {Code, ConnectError, createClient, type Client} from '@connectrpc/connect';
import {createGrpcTransport} from '@connectrpc/connect-node';
import {BadRequestSchema, ErrorInfoSchema, RetryInfoSchema} from './gen/google/rpc/error_details_pb.js';
import {EventService, type AppendEventResponse} from './gen/sessiond/v1/event_service_pb.js';
import {SessionService} from './gen/sessiond/v1/session_service_pb.js';
import {EventSchema, JsonForm, type Event, type Session, type SessionKey} from './gen/sessiond/v1/types_pb.js';
import {WatchService, WatchStart} from './gen/sessiond/v1/watch_service_pb.js';

const TIMEOUT_MS = 10_000; // of one call
const RETRY_MS = 60_000; // of one call and its retries
const APP = 'weather';
const USER = 'alice';
const jsonForm = JsonForm.TEXT;

/** What sessiond says about a failed call. */
class Failure {
  readonly code: Code;
  readonly reason: string;
  readonly metadata: Record<string, string>;
  readonly violations: {field: string; description: string}[];
  readonly retryDelayMs: number;

  constructor(readonly error: ConnectError) {
    this.code = error.code;
    const info = error.findDetails(ErrorInfoSchema).find(({domain}) => domain === 'sessiond');
    this.reason = info?.reason ?? '';
    this.metadata = info?.metadata ?? {};
    this.violations = error.findDetails(BadRequestSchema).flatMap(request => request.fieldViolations);
    const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
    this.retryDelayMs = delay ? Number(delay.seconds) * 1000 + delay.nanos / 1e6 : 0;
  }

  /** Whether the same call may be sent again. Every write below has an id, so `same_id` suffices. */
  get mayRepeat(): boolean {
    if (this.reason !== '') {
      return ['yes', 'same_id'].includes(this.metadata['retryable'] ?? '');
    }
    // The transport failed, and the call may have been applied. A lost connection is Aborted or Canceled here.
    return [Code.Unavailable, Code.DeadlineExceeded, Code.Aborted, Code.Canceled].includes(this.code);
  }
}

/** Waits between attempts, longer each time, until the time for retries is over. */
class Backoff {
  readonly #giveUpAt = performance.now() + RETRY_MS;
  #delayMs = 100;

  async waitOrThrow(error: unknown): Promise<void> {
    const failure = new Failure(ConnectError.from(error));
    if (!failure.mayRepeat || performance.now() > this.#giveUpAt) {
      throw error;
    }
    console.error(`retrying after ${failure.reason || Code[failure.code]}`);
    const jittered = this.#delayMs * (0.5 + Math.random() / 2);
    await sleep(Math.max(jittered, failure.retryDelayMs));
    this.#delayMs = Math.min(this.#delayMs * 2, 2000);
  }
}

async function withRetries<T>(call: () => Promise<T>): Promise<T> {
  const backoff = new Backoff();
  for (;;) {
    try {
      return await call();
    } catch (error) {
      await backoff.waitOrThrow(error);
    }
  }
}

class Conversation {
  readonly #sessions: Client<typeof SessionService>;
  readonly #events: Client<typeof EventService>;
  readonly #watches: Client<typeof WatchService>;

  constructor(address: string) {
    const transport = createGrpcTransport({baseUrl: `http://${address}`});
    this.#sessions = createClient(SessionService, transport);
    this.#events = createClient(EventService, transport);
    this.#watches = createClient(WatchService, transport);
  }

  async create(sessionId: string, state: object): Promise<Session> {
    const request = {
      appName: APP,
      userId: USER,
      sessionId,
      stateForm: {case: 'stateJson', value: JSON.stringify(state)},
      allowExisting: true, // makes the call safe to repeat
      jsonForm,
    } as const;
    const response = await withRetries(() => this.#sessions.createSession(request, {timeoutMs: TIMEOUT_MS}));
    return response.session!;
  }

  /** Appends the event once, however often the call has to be sent. */
  append(key: SessionKey, event: Event): Promise<AppendEventResponse> {
    event.eventId ||= randomUUID();
    const request = {key, event, returnState: true, jsonForm};
    return withRetries(() => this.#events.appendEvent(request, {timeoutMs: TIMEOUT_MS}));
  }

  /** Prints the events of a session until nothing is left to catch up on. */
  async watch({appName, userId, sessionId}: SessionKey): Promise<void> {
    let cursor = '';
    let backoff = new Backoff();
    for (;;) {
      const scope = {appName, userId, sessionId};
      const request = {scope, start: WatchStart.BEGINNING, cursor, jsonForm};
      const stop = new AbortController();
      try {
        for await (const message of this.#watches.watch(request, {signal: stop.signal})) {
          cursor = message.cursor; // goes on from here after a lost connection
          backoff = new Backoff();
          switch (message.kind.case) {
            case 'event':
              console.log(`watched event ${message.kind.value.sequence} by ${message.kind.value.author}`);
              break;
            case 'caughtUp':
              console.log('caught up');
              return;
            case 'sessionDeleted':
              console.log('session deleted');
              return;
          }
        }
      } catch (error) {
        await backoff.waitOrThrow(error);
      } finally {
        stop.abort(); // leaving the loop does not end the stream
      }
    }
  }
}

function says(author: string, role: string, text: string, stateDelta: Event['stateDelta'] | object): Event {
  const body = {content: {role, parts: [{text}]}};
  return create(EventSchema, {
    author,
    invocationId: 'turn-1',
    bodyForm: {case: 'bodyJson', value: JSON.stringify(body)},
    stateDelta,
  });
}

const conversation = new Conversation(process.argv[2] ?? '127.0.0.1:50051');
const session = await conversation.create(randomUUID(), {'app:theme': 'dark', topic: 'the weather'});
const key = session.key!;
console.log(`created a session with ${session.stateForm.value}`);

const increment = {case: 'increment', value: {amount: {case: 'by', value: 1n}}} as const;
const question = says('user', 'user', 'Will it rain?', {operations: [{key: 'user:questions', operation: increment}]});
const topic = JSON.stringify({topic: 'rain'});
const answer = says('agent', 'model', 'Yes, at noon.', {setForm: {case: 'setJson', value: topic}});
let state: unknown;
for (const event of [question, answer]) {
  const {event: stored, replayed, session} = await conversation.append(key, event);
  const again = replayed ? ', which an earlier attempt had stored' : '';
  console.log(`appended event ${stored?.sequence} by ${stored?.author}${again}`);
  state = session?.stateForm.value;
}
console.log(`the state is ${state}`);

const refused = says('user', 'user', 'Again?', {setForm: {case: 'setJson', value: '[]'}});
refused.eventId = 'x'.repeat(200);
try {
  await conversation.append(key, refused);
} catch (error) {
  const {reason, metadata, violations} = new Failure(ConnectError.from(error));
  console.log(`refused with ${reason}, retryable: ${metadata['retryable']}`);
  for (const name of Object.keys(metadata).sort()) {
    console.log(`  ${name} = ${metadata[name]}`);
  }
  for (const {field, description} of violations) {
    console.log(`  ${field}: ${description}`);
  }
}

await conversation.watch(key);
