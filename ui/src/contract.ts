/** The calls of the contract, with the JSON of their messages. */

import type {DescMessage, MessageJsonType} from '@bufbuild/protobuf';
import type {AdminService} from './gen/sessiond/v1/admin_service_pb.js';
import type {EventService} from './gen/sessiond/v1/event_service_pb.js';
import type {SessionService} from './gen/sessiond/v1/session_service_pb.js';
import type {StateService} from './gen/sessiond/v1/state_service_pb.js';

export type {KeyChangeJson as KeyChange} from './gen/sessiond/v1/state_service_pb.js';
export type {
  EventJson as Event,
  ScopeJson as Scope,
  SessionJson as Session,
} from './gen/sessiond/v1/types_pb.js';
export type {
  WatchRequestJson as WatchRequest,
  WatchResponseJson as WatchResponse,
} from './gen/sessiond/v1/watch_service_pb.js';

type Methods = Record<string, {input: DescMessage; output: DescMessage}>;
type CallsOf<Service extends string, M extends Methods> = {
  [Name in keyof M & string as `${Service}/${Capitalize<Name>}`]: [
    MessageJsonType<M[Name]['input']>,
    MessageJsonType<M[Name]['output']>,
  ];
};

/** Request and response of each unary call. */
export type Calls = CallsOf<'AdminService', (typeof AdminService)['method']> &
  CallsOf<'EventService', (typeof EventService)['method']> &
  CallsOf<'SessionService', (typeof SessionService)['method']> &
  CallsOf<'StateService', (typeof StateService)['method']> & {
    'AdminService/GetServerInfo': [object, Record<string, unknown>];
  };

/** The full address of a session. */
export interface Address {
  appName: string;
  userId: string;
  sessionId: string;
}
