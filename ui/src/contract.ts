/** The calls of the contract that the page makes, with the JSON of their messages. */

import type * as admin from './gen/sessiond/v1/admin_service_pb.js';
import type * as event from './gen/sessiond/v1/event_service_pb.js';
import type * as session from './gen/sessiond/v1/session_service_pb.js';
import type * as state from './gen/sessiond/v1/state_service_pb.js';

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

/** Request and response of each unary call. */
export interface Calls {
  'AdminService/GetServerInfo': [object, Record<string, unknown>];
  'AdminService/ListApplications': [
    admin.ListApplicationsRequestJson,
    admin.ListApplicationsResponseJson,
  ];
  'AdminService/ListUsers': [admin.ListUsersRequestJson, admin.ListUsersResponseJson];
  'EventService/BatchGetEvents': [
    event.BatchGetEventsRequestJson,
    event.BatchGetEventsResponseJson,
  ];
  'EventService/ListEvents': [event.ListEventsRequestJson, event.ListEventsResponseJson];
  'SessionService/DeleteSession': [session.DeleteSessionRequestJson, object];
  'SessionService/ForkSession': [session.ForkSessionRequestJson, session.ForkSessionResponseJson];
  'SessionService/GetSession': [session.GetSessionRequestJson, session.GetSessionResponseJson];
  'SessionService/ListSessions': [
    session.ListSessionsRequestJson,
    session.ListSessionsResponseJson,
  ];
  'SessionService/RewindSession': [session.RewindSessionRequestJson, object];
  'StateService/EndInvocation': [state.EndInvocationRequestJson, object];
  'StateService/GetState': [state.GetStateRequestJson, state.GetStateResponseJson];
  'StateService/ListKeyChanges': [
    state.ListKeyChangesRequestJson,
    state.ListKeyChangesResponseJson,
  ];
  'StateService/UpdateState': [state.UpdateStateRequestJson, object];
}

/** The full address of a session. */
export interface Address {
  appName: string;
  userId: string;
  sessionId: string;
}
