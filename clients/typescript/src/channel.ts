/**
 * The channels to a server, with the calls and watches that use them.
 *
 * A channel has one connection, on which the server allows 256 streams. gRPC
 * would let a watch beyond them wait in silence, so a service with more than 200
 * watches has further channels.
 */

import {
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type Message,
  type MessageShape,
} from '@bufbuild/protobuf';
import {
  Client,
  type CallOptions,
  type ChannelCredentials,
  type ClientOptions,
  type ClientReadableStream,
  type Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import {parseAddress, type Address} from './address.js';
import {
  channelCredentials,
  tokenFile,
  type CredentialFiles,
  type TokenFile,
} from './credentials.js';
import {serviceClosed} from './errors.js';
import {callMetadata, type MetadataSource} from './metadata.js';
import {refuseIllFormed} from './well_formed.js';

/** Credentials, and the options of gRPC that are passed through. */
export interface ChannelSettings extends CredentialFiles {
  /** Instead of TLS files. */
  readonly credentials?: ChannelCredentials;
  /** Options and interceptors of the channel, added to the defaults. */
  readonly channelOptions?: ClientOptions;
  /** Metadata of every call, or a function that makes it for each attempt. Its entries win over the token file. */
  readonly metadata?: MetadataSource;
}

const DEFAULT_OPTIONS: ClientOptions = {
  // A sidecar restarts quickly. With gRPC's own backoff (1 s to 2 minutes) the
  // channel would stay down long after the server is back.
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // A connection with calls in flight is pinged, so that a dead one is noticed.
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 20_000,
  'grpc.keepalive_permit_without_calls': 0,
  // client.ts does the retries, as it knows which calls may be sent again.
  'grpc.enable_retries': 0,
  // Otherwise the channels of one process to one target share a connection and its backoff.
  'grpc.use_local_subchannel_pool': 1,
  // The server is local; HTTP proxies of the environment are meant for other hosts.
  'grpc.enable_http_proxy': 0,
};

/** An open watch takes one of the 256 streams of a connection. The rest is for the unary calls on the first channel. */
const WATCHES_PER_CHANNEL = 200;

/** A reader of a channel that can be stopped. */
export interface Stoppable {
  stop(): void;
}

interface Cancellable {
  cancel(): void;
}

/** A channel, and the watches that have a place on it. */
interface Channel {
  readonly client: Client;
  readonly watches: Set<Stoppable>;
}

/** The channels of a service. Connects at the first call. */
export class Connection {
  closed = false;
  readonly #connect: () => Channel;
  /** The unary calls are on the first one, which stays. */
  readonly #channels: [Channel, ...Channel[]];
  readonly #metadata: (request: Message) => Promise<Metadata>;
  readonly #inFlight = new Map<object, Cancellable | undefined>();
  #wakeups: (() => void)[] = [];

  constructor(
    target: string,
    credentials: ChannelCredentials,
    options: ClientOptions | undefined,
    metadata: (request: Message) => Promise<Metadata>,
  ) {
    this.#metadata = metadata;
    const merged = {...DEFAULT_OPTIONS, ...options};
    this.#connect = () => ({
      client: new Client(target, credentials, merged),
      watches: new Set(),
    });
    this.#channels = [this.#connect()];
  }

  /** The watches that have begun and not ended. */
  get watches(): Stoppable[] {
    return this.#channels.flatMap(({watches}) => [...watches]);
  }

  /**
   * Calls a method once.
   *
   * @throws TypeError: an id of the request cannot be sent.
   * @throws ServiceError: the call failed.
   * @throws SessiondClosedError: closing the service cut the call off.
   */
  async invoke<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    deadline: number,
  ): Promise<MessageShape<O>> {
    refuseIllFormed(request);
    const token = {};
    this.#inFlight.set(token, undefined);
    try {
      const metadata = await this.#metadata(request);
      if (this.closed) {
        throw serviceClosed();
      }
      return await new Promise((resolve, reject) => {
        const call = this.#channels[0].client.makeUnaryRequest(
          path(method),
          (message: MessageShape<I>) => encode(method.input, message),
          bytes => fromBinary(method.output, bytes),
          request,
          metadata,
          {deadline} satisfies CallOptions,
          (error: ServiceError | null, response) => {
            if (error || !response) {
              reject(error ?? new Error('gRPC gave no response and no error.'));
            } else {
              resolve(response);
            }
          },
        );
        this.#inFlight.set(token, call);
      });
    } catch (error) {
      throw this.closed ? serviceClosed(error) : error;
    } finally {
      this.#inFlight.delete(token);
      if (this.#inFlight.size === 0) {
        this.#wake();
      }
    }
  }

  /** Opens a stream of responses for `watch`, which keeps its place on a channel until it leaves. */
  async open<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageShape<I>,
    watch: Stoppable,
  ): Promise<ClientReadableStream<MessageShape<O>>> {
    refuseIllFormed(request);
    const {client} = this.#place(watch);
    const metadata = await this.#metadata(request);
    if (this.closed) {
      throw serviceClosed();
    }
    const stream = client.makeServerStreamRequest(
      path(method),
      (message: MessageShape<I>) => encode(method.input, message),
      bytes => fromBinary(method.output, bytes),
      request,
      metadata,
    );
    // An error that nobody reads any more, as after a cancellation, would end the process.
    stream.on('error', () => {});
    return stream;
  }

  /** The channel of a watch: the first with a place for it, or a further one. */
  #place(watch: Stoppable): Channel {
    const channels = this.#channels;
    let channel =
      channels.find(({watches}) => watches.has(watch)) ??
      channels.find(({watches}) => watches.size < WATCHES_PER_CHANNEL);
    if (!channel) {
      channel = this.#connect();
      channels.push(channel);
    }
    channel.watches.add(watch);
    return channel;
  }

  /** Gives up the place of a watch. A further channel closes with its last one. */
  leave(watch: Stoppable): void {
    const at = this.#channels.findIndex(({watches}) => watches.delete(watch));
    if (at > 0 && this.#channels[at]?.watches.size === 0) {
      this.#channels.splice(at, 1).forEach(({client}) => client.close());
    }
  }

  /** Waits; returns early, with an error, if the connection is closed. */
  async sleep(ms: number): Promise<void> {
    await this.#wakeup(ms, () => this.closed);
    if (this.closed) {
      throw serviceClosed();
    }
  }

  /** Stops the watches, waits up to `graceMs` for in-flight calls, cancels the rest and closes the channels. */
  async close(graceMs: number): Promise<void> {
    this.watches.forEach(watch => watch.stop());
    if (this.#inFlight.size > 0 && graceMs > 0) {
      await this.#wakeup(graceMs, () => this.#inFlight.size === 0);
    }
    this.closed = true;
    for (const call of this.#inFlight.values()) {
      call?.cancel();
    }
    this.#wake();
    this.#channels[0].client.close();
  }

  #wake(): void {
    const wakeups = this.#wakeups;
    this.#wakeups = [];
    wakeups.forEach(wakeup => wakeup());
  }

  /** Waits until `done` after a wakeup, at most `ms`. */
  async #wakeup(ms: number, done: () => boolean): Promise<void> {
    const until = performance.now() + ms;
    for (;;) {
      const left = until - performance.now();
      if (done() || left <= 0) {
        return;
      }
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, left);
        this.#wakeups.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }
}

/** The connection of a service, made at the first call and again after `close`. */
export class Connections {
  readonly #address: Address;
  readonly #settings: ChannelSettings;
  readonly #credentials: ChannelCredentials;
  readonly #token: TokenFile | undefined;
  #current: Connection | undefined;

  /** @throws TypeError: not an address, or files that cannot be used. */
  constructor(address: string | Address, settings: ChannelSettings) {
    this.#address =
      typeof address === 'string' ? parseAddress(address) : address;
    this.#settings = settings;
    const {credentials, tlsCa, tlsCert, tlsKey} = settings;
    if (credentials && (tlsCa ?? tlsCert ?? tlsKey) !== undefined) {
      throw new TypeError(
        'credentials exclude tlsCa, tlsCert and tlsKey. Use one or the other.',
      );
    }
    this.#credentials =
      credentials ?? channelCredentials(this.#address, settings);
    const encrypted = this.#credentials._isSecure();
    this.#token = tokenFile(this.#address, settings, encrypted);
  }

  current(): Connection {
    this.#current ??= new Connection(
      this.#address.target,
      this.#credentials,
      this.#settings.channelOptions,
      request => callMetadata(this.#settings.metadata, this.#token, request),
    );
    return this.#current;
  }

  async close(graceMs: number): Promise<void> {
    const connection = this.#current;
    this.#current = undefined;
    await connection?.close(graceMs);
  }
}

function path(method: DescMethodUnary | DescMethodServerStreaming): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function encode<I extends DescMessage>(
  schema: I,
  message: MessageShape<I>,
): Buffer {
  const {buffer, byteOffset, byteLength} = toBinary(schema, message);
  return Buffer.from(buffer, byteOffset, byteLength);
}
