/** The metadata of a call: the caller's own, the token, and the trace context. */

import {Metadata} from '@grpc/grpc-js';
import {context, propagation, type TextMapSetter} from '@opentelemetry/api';
import type {TokenFile} from './credentials.js';

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

/** The metadata of an attempt that begins now. */
export async function callMetadata(
  source: MetadataSource | undefined,
  token: TokenFile | undefined,
): Promise<Metadata> {
  // Before the caller's function can lose the context of the span.
  const active = context.active();
  const own = typeof source === 'function' ? await source() : source;
  const metadata = own?.clone() ?? new Metadata();
  // `traceparent` of the current span, with the propagator that the application has registered.
  propagation.inject(active, metadata, setter);
  if (token) {
    setter.set(metadata, 'authorization', `Bearer ${token.token()}`);
  }
  return metadata;
}
