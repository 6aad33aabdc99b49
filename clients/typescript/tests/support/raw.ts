/** Events as other programs write them, and the stored form of events. */

import {create, type MessageInitShape} from '@bufbuild/protobuf';
import type {CompositeSessionKey} from '@google/adk';
import {Connections} from '../../src/channel.js';
import {Client, sessionKey} from '../../src/client.js';
import {
  AppendEventRequestSchema,
  EventService,
  ListEventsRequestSchema,
} from '../../src/gen/sessiond/v1/event_service_pb.js';
import type {
  EventSchema,
  Event as StoredEvent,
} from '../../src/gen/sessiond/v1/types_pb.js';
import {Backoff} from '../../src/retry.js';

/** A client without the adapter's conversions. */
export class RawClient extends Client {
  constructor(address: string) {
    super(new Connections(address, {}), 240_000, new Backoff());
  }

  /** Appends an event whose body is any JSON text. */
  async append(
    key: CompositeSessionKey,
    body: string,
    event: MessageInitShape<typeof EventSchema> = {},
  ): Promise<void> {
    const request = create(AppendEventRequestSchema, {
      key: sessionKey(key),
      event: {
        author: 'other',
        ...event,
        bodyForm: {case: 'bodyJson', value: body},
      },
    });
    await this.call(EventService.method.appendEvent, request);
  }

  /** The stored events. */
  async stored(key: CompositeSessionKey): Promise<StoredEvent[]> {
    const request = create(ListEventsRequestSchema, {key: sessionKey(key)});
    const events = [];
    for await (const event of this.listEvents(request)) {
      events.push(event);
    }
    return events;
  }
}
