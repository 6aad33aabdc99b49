/** The metadata of a call: the caller's own, the token, the trace context, and a hint for load balancers. */

import type {Message} from '@bufbuild/protobuf';
import {Metadata} from '@grpc/grpc-js';
import {context, propagation, type TextMapSetter} from '@opentelemetry/api';
import {createHash} from 'node:crypto';
import type {TokenFile} from './credentials.js';
import type {Scope, SessionKey} from './gen/sessiond/v1/types_pb.js';
import {warn} from './log.js';

/** Metadata of every call, or a function that makes it for each attempt. */
export type MetadataSource = Metadata | (() => Metadata | Promise<Metadata>);

/** Entries of the caller are not overwritten. */
const setter: TextMapSetter<Metadata> = {
  set(metadata, name, value) {
    if (metadata.get(name).length === 0) {
      metadata.set(name, value);
    }
  },
};

/** What code of the application that only observes returns; undefined if it fails, which must not end the call. */
function observed<T>(observe: () => T): T | undefined {
  try {
    return observe();
  } catch (error) {
    warn('the trace context is not sent:', error);
    return undefined;
  }
}

/** A hint that load balancers can hash to keep the calls of a user on one replica. The server does not read it. */
function addAffinity(metadata: Metadata, request: Message): void {
  const {scope, key} = request as {scope?: Scope; key?: SessionKey};
  const {appName, userId = ''} = (scope ?? key ?? request) as Partial<Scope>;
  if (appName) {
    const names = `${appName}\0${userId}`;
    const hash = createHash('sha256').update(names).digest('hex');
    setter.set(metadata, 'sessiond-affinity', hash.slice(0, 16));
  }
}

/** The metadata of an attempt that begins now. */
export async function callMetadata(
  source: MetadataSource | undefined,
  token: TokenFile | undefined,
  request: Message,
): Promise<Metadata> {
  // Before the caller's function can lose the context of the span.
  const active = observed(() => context.active());
  const own = typeof source === 'function' ? await source() : source;
  const metadata = own?.clone() ?? new Metadata();
  if (token) {
    setter.set(metadata, 'authorization', `Bearer ${token.token()}`);
  }
  addAffinity(metadata, request);
  // `traceparent` of the current span, with the propagator that the application has registered.
  observed(() => active && propagation.inject(active, metadata, setter));
  return metadata;
}
