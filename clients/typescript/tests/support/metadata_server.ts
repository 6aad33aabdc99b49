/** A server without sessions that keeps the metadata of its calls and watches, and ends every watch at once. */

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type MessageShape,
} from '@bufbuild/protobuf';
import {
  Server,
  ServerCredentials,
  type status as Code,
  type Metadata,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import {
  ListSessionsResponseSchema,
  SessionService,
} from '../../src/gen/sessiond/v1/session_service_pb.js';
import {
  WatchResponseSchema,
  WatchService,
} from '../../src/gen/sessiond/v1/watch_service_pb.js';
import type {SessiondSessionService} from '../../src/index.js';

export class MetadataServer {
  address = '';
  /** Ends every call and watch with this status. */
  refuse: Code | undefined;
  readonly seen: Metadata[] = [];
  readonly #server = new Server();

  static async start(listen = '127.0.0.1:0'): Promise<MetadataServer> {
    const made = new MetadataServer();
    made.#server.addService(
      {
        list: method(
          SessionService.method.listSessions,
          ListSessionsResponseSchema,
          false,
        ),
        watch: method(WatchService.method.watch, WatchResponseSchema, true),
      },
      {
        list: (
          {metadata}: ServerUnaryCall<unknown, unknown>,
          callback: sendUnaryData<unknown>,
        ) => {
          made.seen.push(metadata);
          callback(made.#status(), create(ListSessionsResponseSchema));
        },
        watch: (stream: ServerWritableStream<unknown, unknown>) => {
          made.seen.push(stream.metadata);
          const refused = made.#status();
          if (refused) {
            stream.emit('error', refused);
            return;
          }
          const kind = {case: 'sessionDeleted', value: {}} as const;
          stream.write(create(WatchResponseSchema, {cursor: 'c', kind}));
          stream.end();
        },
      },
    );
    const port = await new Promise<number>((resolve, reject) => {
      made.#server.bindAsync(
        listen,
        ServerCredentials.createInsecure(),
        (error, bound) => (error ? reject(error) : resolve(bound)),
      );
    });
    made.address = listen.startsWith('unix:') ? listen : `127.0.0.1:${port}`;
    return made;
  }

  #status(): {code: Code; details: string} | null {
    return this.refuse === undefined
      ? null
      : {code: this.refuse, details: 'refused'};
  }

  /** The value that each call and watch has sent under a name. */
  values(name: string): unknown[] {
    return this.seen.map(metadata => metadata.get(name).join());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.forceShutdown();
  }
}

function method<O extends DescMessage>(
  {
    parent,
    name,
    input,
  }: {parent: {typeName: string}; name: string; input: DescMessage},
  output: O,
  responseStream: boolean,
) {
  return {
    path: `/${parent.typeName}/${name}`,
    requestStream: false,
    responseStream,
    requestSerialize: (message: MessageShape<DescMessage>) =>
      Buffer.from(toBinary(input, message)),
    requestDeserialize: (bytes: Buffer) => fromBinary(input, bytes),
    responseSerialize: (message: MessageShape<O>) =>
      Buffer.from(toBinary(output, message)),
    responseDeserialize: (bytes: Buffer) => fromBinary(output, bytes),
  };
}

/** Makes one call and one watch to its end. */
export async function callAndWatch(
  service: SessiondSessionService,
): Promise<void> {
  await service.listSessions({appName: 'app', userId: 'user'});
  await watchToTheEnd(service);
}

export async function watchToTheEnd(
  service: SessiondSessionService,
): Promise<void> {
  const address = {appName: 'app', userId: 'user', sessionId: 's'};
  for await (const item of service.watch(address)) {
    void item;
  }
}
