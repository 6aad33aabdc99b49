/** A gRPC server whose methods a test implements. It keeps the requests. */

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import {
  Server,
  ServerCredentials,
  type ServerWritableStream,
} from '@grpc/grpc-js';

export class FakeServer {
  address = '';
  /** The name and the request of each call. */
  readonly calls: [method: string, request: unknown][] = [];
  readonly #server = new Server();

  static async start(): Promise<FakeServer> {
    const fake = new FakeServer();
    const port = await new Promise<number>((resolve, reject) => {
      fake.#server.bindAsync(
        '127.0.0.1:0',
        ServerCredentials.createInsecure(),
        (error, bound) => (error ? reject(error) : resolve(bound)),
      );
    });
    fake.address = `127.0.0.1:${port}`;
    return fake;
  }

  /** The names of the called methods. */
  get methods(): string[] {
    return this.calls.map(([method]) => method);
  }

  /** Answers the calls of `method`. To the client of a stream, an answer is a stream of these messages. */
  on<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O> | DescMethodServerStreaming<I, O>,
    answer: (request: MessageShape<I>) => MessageInitShape<O>[],
  ): this {
    const {input, output, name} = method;
    const path = `/${method.parent.typeName}/${name}`;
    // gRPC keeps the first handler of a method.
    this.#server.unregister(path);
    this.#server.register(
      path,
      (call: ServerWritableStream<MessageShape<I>, MessageShape<O>>) => {
        this.calls.push([name, call.request]);
        for (const message of answer(call.request)) {
          call.write(create(output, message));
        }
        call.end();
      },
      (message: MessageShape<O>) => Buffer.from(toBinary(output, message)),
      (bytes: Buffer) => fromBinary(input, bytes),
      // A client of a unary method does not see the difference.
      'serverStream',
    );
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.forceShutdown();
  }
}
