/** A gRPC server that answers every call from a script. */

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
import {anyPack} from '@bufbuild/protobuf/wkt';
import type {status as Code} from '@grpc/grpc-js';
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type StatusObject,
} from '@grpc/grpc-js';
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
  StatusSchema,
} from '../../src/gen/google/rpc/details_pb.js';

export interface Failure {
  code: Code;
  message?: string;
  reason?: string;
  domain?: string;
  metadata?: Record<string, string>;
  violations?: {field: string; description: string}[];
  retryAfterMs?: number;
  details?: Uint8Array;
}

/** The answer to one call; `hang` never answers. */
export type Answer = Failure | 'hang' | 'ok';

/** As `Answer`; `after` is the message that a stream sends before it fails. */
type StreamAnswer<O extends DescMessage> =
  (Failure & {after?: MessageInitShape<O>}) | 'hang' | 'ok';

export class ScriptedServer {
  address = '';
  readonly requests: unknown[] = [];
  readonly metadata: Metadata[] = [];
  readonly deadlines: number[] = [];
  readonly times: number[] = [];
  readonly #server = new Server();

  /**
   * Answers the calls of `method`; the last answer of the script is repeated.
   * To the client of a stream, `ok` is a stream of one message.
   */
  static async start<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O> | DescMethodServerStreaming<I, O>,
    response: MessageInitShape<O>,
    answers: StreamAnswer<O>[],
  ): Promise<ScriptedServer> {
    const server = new ScriptedServer();
    const handler = (
      call: ServerWritableStream<MessageShape<I>, MessageShape<O>>,
    ): void => {
      server.requests.push(call.request);
      server.metadata.push(call.metadata);
      server.deadlines.push(Number(call.getDeadline()));
      server.times.push(performance.now());
      const answer = (answers.length > 1 ? answers.shift() : answers[0])!;
      if (answer === 'ok') {
        call.write(create(method.output, response));
        call.end();
      } else if (answer !== 'hang') {
        if (answer.after) {
          call.write(create(method.output, answer.after));
        }
        call.emit('error', statusOf(answer));
      }
    };
    server.#server.addService(
      {
        call: {
          path: `/${method.parent.typeName}/${method.name}`,
          requestStream: false,
          // A client of a unary method does not see the difference.
          responseStream: true,
          requestSerialize: (message: MessageShape<I>) =>
            Buffer.from(toBinary(method.input, message)),
          requestDeserialize: (bytes: Buffer) =>
            fromBinary(method.input, bytes),
          responseSerialize: (message: MessageShape<O>) =>
            Buffer.from(toBinary(method.output, message)),
          responseDeserialize: (bytes: Buffer) =>
            fromBinary(method.output, bytes),
        },
      },
      {call: handler},
    );
    const port = await new Promise<number>((resolve, reject) => {
      server.#server.bindAsync(
        '127.0.0.1:0',
        ServerCredentials.createInsecure(),
        (error, bound) => (error ? reject(error) : resolve(bound)),
      );
    });
    server.address = `127.0.0.1:${port}`;
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.forceShutdown();
  }
}

function statusOf(failure: Failure): Partial<StatusObject> {
  const {
    code,
    message = 'a failure',
    reason,
    domain = 'sessiond',
    violations,
  } = failure;
  const metadata = new Metadata();
  const details = [];
  if (reason) {
    details.push(
      anyPack(
        ErrorInfoSchema,
        create(ErrorInfoSchema, {
          reason,
          domain,
          metadata: failure.metadata ?? {},
        }),
      ),
    );
  }
  if (violations) {
    details.push(
      anyPack(
        BadRequestSchema,
        create(BadRequestSchema, {fieldViolations: violations}),
      ),
    );
  }
  if (failure.retryAfterMs !== undefined) {
    const retryDelay = {
      seconds: BigInt(Math.floor(failure.retryAfterMs / 1000)),
      nanos: (failure.retryAfterMs % 1000) * 1e6,
    };
    details.push(
      anyPack(RetryInfoSchema, create(RetryInfoSchema, {retryDelay})),
    );
  }
  const bytes =
    failure.details ??
    toBinary(StatusSchema, create(StatusSchema, {code, message, details}));
  metadata.set('grpc-status-details-bin', Buffer.from(bytes));
  return {code, details: message, metadata};
}
