/** Watches: the committed changes of a scope, across broken connections and restarts of the server. */

import {create, type MessageShape} from '@bufbuild/protobuf';
import {
  status as Code,
  Metadata,
  type ClientReadableStream,
  type ServiceError,
} from '@grpc/grpc-js';
import type {Connection, Stoppable} from './channel.js';
import {isClosed, isServiceError, jsonForm, type Client} from './client.js';
import {errorOf, SessiondNotFoundError, SessiondStaleError} from './errors.js';
import {decodeDelta} from './events.js';
import type {Scope} from './gen/sessiond/v1/types_pb.js';
import {
  WatchRequestSchema,
  WatchService,
  WatchStart,
  type StateSnapshot,
  type WatchResponseSchema,
} from './gen/sessiond/v1/watch_service_pb.js';
import {valuesOf} from './state.js';
import {stateTexts} from './state_pages.js';
import {statusOf} from './status.js';
import {decodeStored, type StoredEvent} from './stored.js';
import {millisOf} from './times.js';

/** Three of the server's heartbeats, which come every 10 seconds. */
const IDLE_MS = 30_000;

/** How the server ends an open stream whose credential has expired or was removed. */
const CREDENTIAL_ENDED = ['CREDENTIAL_EXPIRED', 'CREDENTIAL_INVALID'];

const STARTS = {
  snapshot: WatchStart.SNAPSHOT,
  beginning: WatchStart.BEGINNING,
  now: WatchStart.NOW,
} as const;

/** The start of a watch, and how long it waits for a server that is away. */
export interface WatchOptions {
  /** Continue after this item of another watch. Overrides `start`. */
  readonly cursor?: string;
  /** With the current state (default), the first event of the session, or the next change. */
  readonly start?: 'snapshot' | 'beginning' | 'now';
  /** Default: 60,000. */
  readonly reconnectMs?: number;
}

/**
 * An item of a watch; `cursor` is the position right after it.
 *
 * * `snapshot`: the state at the start, with prefixed keys, and the sequence of the session's newest event.
 * * `event`: an event of the session, as `listEvents` gives it.
 * * `change`: a change of user or application state made elsewhere; removed keys are in `removed`.
 * * `caughtUp`: everything that was stored before the watch has been delivered. Comes once.
 * * `deleted`: the session was deleted or has expired. The watch ends.
 */
export type WatchItem =
  | {
      kind: 'snapshot';
      state: Record<string, unknown>;
      lastSequence: number;
      cursor: string;
    }
  | ({kind: 'event'; cursor: string} & StoredEvent)
  | {
      kind: 'change';
      values: Record<string, unknown>;
      removed: string[];
      commitTime: number;
      cursor: string;
    }
  | {kind: 'caughtUp'; cursor: string}
  | {kind: 'deleted'; cursor: string};

type Message = MessageShape<typeof WatchResponseSchema>;

/**
 * An async iterator over `WatchItem`s: every event once, in order; of wider
 * scopes at least the newest values.
 *
 * When the connection breaks, the stream or its credential ends, or the server
 * restarts, the watch resumes after its last item, without gap or repetition. It
 * ends after `deleted`, when the loop is left, when the watch or the service is
 * closed, or with an error: SessiondNotFoundError, SessiondInvalidError
 * (BAD_CURSOR), CURSOR_OF_OTHER_STORE, or SessiondUnavailableError if the server
 * is away for `reconnectMs`. Another watch can resume at `cursor`.
 */
export class Watch implements AsyncIterableIterator<WatchItem>, Stoppable {
  readonly #client: Client;
  readonly #scope: Scope;
  readonly #start: WatchStart;
  readonly #reconnectMs: number;
  readonly #items: AsyncGenerator<WatchItem, undefined>;
  #cursor: string;
  #stopped = false;
  #failed = 0;
  #failingSince = 0;
  #connection: Connection | undefined;
  #stream: ClientReadableStream<Message> | undefined;
  #wake: () => void = () => {};

  /**
   * Connects when the first item is requested.
   *
   * @throws TypeError: an unknown start.
   */
  constructor(
    client: Client,
    scope: Scope,
    {cursor = '', start = 'snapshot', reconnectMs = 60_000}: WatchOptions,
  ) {
    if (!Object.hasOwn(STARTS, start)) {
      const starts = Object.keys(STARTS).join(', ');
      throw new TypeError(`start is '${start}'. It must be one of ${starts}.`);
    }
    this.#client = client;
    this.#scope = scope;
    this.#cursor = cursor;
    this.#start = STARTS[start];
    this.#reconnectMs = reconnectMs;
    this.#items = this.#read();
  }

  /** The position right after the last item; '' before the first. */
  get cursor(): string {
    return this.#cursor;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<WatchItem, undefined>> {
    return this.#items.next();
  }

  /** Ends the watch, and a pending `next`. */
  async return(): Promise<IteratorResult<WatchItem, undefined>> {
    this.stop();
    return this.#items.return(undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  /** As `return`, without waiting. */
  stop(): void {
    this.#stopped = true;
    this.#stream?.cancel();
    this.#connection?.leave(this);
    this.#wake();
  }

  async *#read(): AsyncGenerator<WatchItem, undefined> {
    let caughtUp = false;
    try {
      while (!this.#stopped) {
        let received = false;
        try {
          for await (const message of this.#messages()) {
            received = true;
            this.#failed = 0;
            // A message without a cursor leaves the position where it was.
            this.#cursor = message.cursor || this.#cursor;
            const item = await this.#decode(message);
            // The server sends it once per stream; the caller gets it once.
            if (!item || (item.kind === 'caughtUp' && caughtUp)) {
              continue;
            }
            caughtUp ||= item.kind === 'caughtUp';
            if (item.kind === 'deleted') {
              this.stop();
            }
            yield item;
            if (this.#stopped) {
              return;
            }
          }
        } catch (failure) {
          await this.#backOff(failure, received);
        }
      }
    } finally {
      this.stop();
    }
  }

  /** The messages of one stream, which ends with an error only, or when the watch is stopped. */
  async *#messages(): AsyncGenerator<Message> {
    const connection = this.#client.connections.current();
    this.#connection = connection;
    const request = create(WatchRequestSchema, {
      scope: this.#scope,
      cursor: this.#cursor,
      start: this.#start,
      jsonForm,
    });
    const {watch} = WatchService.method;
    const stream = await connection.open(watch, request, this);
    this.#stream = stream;
    if (this.#stopped) {
      stream.cancel();
      return;
    }
    const messages = stream[Symbol.asyncIterator]() as AsyncIterator<Message>;
    try {
      for (let limit = this.#client.timeoutMs; ; limit = IDLE_MS) {
        const {done, value} = await withinMs(limit, messages.next());
        if (done) {
          // Only a deletion ends a watch. A proxy may end a stream without it.
          throw connectionLost('The watch ended before its session did.');
        }
        yield value;
      }
    } finally {
      stream.cancel();
      this.#stream = undefined;
    }
  }

  /** The item of a message; undefined if it is none. */
  async #decode(message: Message): Promise<WatchItem | undefined> {
    const cursor = this.#cursor;
    if (message.kind.case !== 'snapshot') {
      return decode(message, cursor);
    }
    const {value} = message.kind;
    const lastSequence = Number(value.lastSequence);
    const state = valuesOf(await this.#snapshotTexts(value));
    return {kind: 'snapshot', state, lastSequence, cursor};
  }

  /** The values of a snapshot. Pages may show later changes as well, which come as items once more. */
  async #snapshotTexts(snapshot: StateSnapshot): Promise<Map<string, string>> {
    try {
      return await stateTexts(this.#client, this.#scope, snapshot);
    } catch (error) {
      if (
        error instanceof SessiondNotFoundError ||
        error instanceof SessiondStaleError
      ) {
        // The session was deleted since. The watch says so next.
        return new Map();
      }
      throw error;
    }
  }

  /**
   * Waits before the next attempt, or throws the error that ends the watch.
   * `received`: the stream that failed had sent a message.
   */
  async #backOff(failure: unknown, received: boolean): Promise<void> {
    if (this.#stopped || isClosed(failure)) {
      this.#stopped = true;
      return;
    }
    if (!isServiceError(failure)) {
      throw failure;
    }
    const status = statusOf(failure);
    const now = performance.now();
    if (this.#failed === 0) {
      this.#failingSince = now;
    }
    this.#failed++;
    const away = now - this.#failingSince;
    // The server had accepted the credential, and there may be a new one. One that is refused at once is wrong.
    const replaceable = received && CREDENTIAL_ENDED.includes(status.reason);
    if (
      (status.retryable === 'no' && !replaceable) ||
      away >= this.#reconnectMs
    ) {
      throw errorOf(status, this.#failed, failure);
    }
    if (status.reason === 'DRAINING') {
      this.#cursor = status.metadata['cursor'] || this.#cursor;
    }
    const delay = this.#client.backoff.delayMs(
      this.#failed,
      status.retryAfterMs,
    );
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, delay);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** The result of `pending`, or a lost connection if it takes longer. */
async function withinMs<T>(ms: number, pending: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `The watch received nothing for ${ms} ms.`;
    timer = setTimeout(() => reject(connectionLost(message)), ms);
  });
  try {
    return await Promise.race([pending, late]);
  } finally {
    clearTimeout(timer);
    // After a timeout nobody else waits for its failure.
    pending.catch(() => {});
  }
}

/** The error of a lost connection, for cases in which gRPC has none. */
function connectionLost(message: string): ServiceError {
  const metadata = new Metadata();
  const code = Code.UNAVAILABLE;
  return Object.assign(new Error(message), {code, details: message, metadata});
}

/** The item of a message; undefined for a snapshot, a heartbeat, and kinds that a newer server may add. */
function decode({kind}: Message, cursor: string): WatchItem | undefined {
  switch (kind.case) {
    case 'event':
      return {kind: 'event', ...decodeStored(kind.value), cursor};
    case 'stateChange': {
      const {delta, commitTime} = kind.value;
      const removed = delta?.remove ?? [];
      const values = decodeDelta(delta);
      removed.forEach(key => delete values[key]);
      return {
        kind: 'change',
        values,
        removed,
        commitTime: millisOf(commitTime),
        cursor,
      };
    }
    case 'caughtUp':
      return {kind: 'caughtUp', cursor};
    case 'sessionDeleted':
      return {kind: 'deleted', cursor};
    default:
      return undefined;
  }
}
