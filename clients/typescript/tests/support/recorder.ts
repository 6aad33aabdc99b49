/** Sees the messages between a service and its server, and can change them. */

import type {Message} from '@bufbuild/protobuf';
import {
  InterceptingCall,
  ListenerBuilder,
  RequesterBuilder,
  type Interceptor,
} from '@grpc/grpc-js';
import type {SessiondOptions} from '../../src/index.js';

export type Edit = (message: Message) => void;

export class Recorder {
  readonly #requests: {method: string; message: Message}[] = [];
  readonly #edit: Edit;

  /** `edit` changes requests before they are sent, and responses. */
  constructor(edit: Edit = () => {}) {
    this.#edit = edit;
  }

  /** The requests of a method such as `AppendEvent`, as the adapter made them. */
  requests<T extends Message>(method: string): T[] {
    return this.#requests
      .filter(one => one.method === method)
      .map(({message}) => message as T);
  }

  /** The methods of all requests. */
  get all(): string[] {
    return this.#requests.map(({method}) => method);
  }

  /** What makes a service use it. */
  get options(): SessiondOptions {
    return {channelOptions: {interceptors: [this.#interceptor]}};
  }

  readonly #interceptor: Interceptor = (options, nextCall) => {
    const method = options.method_definition.path.replace(/.*\//, '');
    const listener = new ListenerBuilder()
      .withOnReceiveMessage((message: Message | null, next) => {
        // A call that fails has no message.
        if (message) {
          this.#edit(message);
        }
        next(message);
      })
      .build();
    const requester = new RequesterBuilder()
      .withStart((metadata, _, next) => next(metadata, listener))
      .withSendMessage((message: Message, next) => {
        this.#requests.push({method, message: structuredClone(message)});
        this.#edit(message);
        next(message);
      })
      .build();
    return new InterceptingCall(nextCall(options), requester);
  };
}
