/** The calls of the contract that the page makes, with the JSON of their messages. */

import type {
  ListApplicationsRequestJson,
  ListApplicationsResponseJson,
  ListUsersRequestJson,
  ListUsersResponseJson,
} from './gen/sessiond/v1/admin_service_pb.js';
import type {
  BatchGetEventsRequestJson,
  BatchGetEventsResponseJson,
  ListEventsRequestJson,
  ListEventsResponseJson,
} from './gen/sessiond/v1/event_service_pb.js';
import type {
  DeleteSessionRequestJson,
  DeleteSessionResponseJson,
  ForkSessionRequestJson,
  ForkSessionResponseJson,
  GetSessionRequestJson,
  GetSessionResponseJson,
  ListSessionsRequestJson,
  ListSessionsResponseJson,
  RewindSessionRequestJson,
  RewindSessionResponseJson,
} from './gen/sessiond/v1/session_service_pb.js';
import type {
  EndInvocationRequestJson,
  EndInvocationResponseJson,
  GetStateRequestJson,
  GetStateResponseJson,
  ListKeyChangesRequestJson,
  ListKeyChangesResponseJson,
  UpdateStateRequestJson,
  UpdateStateResponseJson,
} from './gen/sessiond/v1/state_service_pb.js';

export type {KeyChangeJson as KeyChange} from './gen/sessiond/v1/state_service_pb.js';
export type {
  EventJson as Event,
  ScopeJson as Scope,
  SessionJson as Session,
  SessionKeyJson as SessionKey,
} from './gen/sessiond/v1/types_pb.js';
export type {
  WatchRequestJson as WatchRequest,
  WatchResponseJson as WatchResponse,
} from './gen/sessiond/v1/watch_service_pb.js';

/** Request and response of each unary call. */
export interface Calls {
  'AdminService/ListApplications': [ListApplicationsRequestJson, ListApplicationsResponseJson];
  'AdminService/ListUsers': [ListUsersRequestJson, ListUsersResponseJson];
  'EventService/BatchGetEvents': [BatchGetEventsRequestJson, BatchGetEventsResponseJson];
  'EventService/ListEvents': [ListEventsRequestJson, ListEventsResponseJson];
  'SessionService/DeleteSession': [DeleteSessionRequestJson, DeleteSessionResponseJson];
  'SessionService/ForkSession': [ForkSessionRequestJson, ForkSessionResponseJson];
  'SessionService/GetSession': [GetSessionRequestJson, GetSessionResponseJson];
  'SessionService/ListSessions': [ListSessionsRequestJson, ListSessionsResponseJson];
  'SessionService/RewindSession': [RewindSessionRequestJson, RewindSessionResponseJson];
  'StateService/EndInvocation': [EndInvocationRequestJson, EndInvocationResponseJson];
  'StateService/GetState': [GetStateRequestJson, GetStateResponseJson];
  'StateService/ListKeyChanges': [ListKeyChangesRequestJson, ListKeyChangesResponseJson];
  'StateService/UpdateState': [UpdateStateRequestJson, UpdateStateResponseJson];
}

/** The full address of a session. */
export interface Address {
  appName: string;
  userId: string;
  sessionId: string;
}
