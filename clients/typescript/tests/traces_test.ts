/** Calls and watches carry the trace context of the caller's span. */

import {getLogger} from '@google/adk';
import {Metadata} from '@grpc/grpc-js';
import {context, propagation, trace} from '@opentelemetry/api';
import {AsyncLocalStorageContextManager} from '@opentelemetry/context-async-hooks';
import {W3CTraceContextPropagator} from '@opentelemetry/core';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, expect, test, vi} from 'vitest';
import {callAndWatch, MetadataServer} from './support/metadata_server.js';
import {connect} from './support/server.js';

const traceId = '0102030405060708090a0b0c0d0e0f10';
const spanId = '1112131415161718';
const traceparent = `00-${traceId}-${spanId}-01`;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
});

afterAll(() => {
  context.disable();
  propagation.disable();
});

function inSpan(call: () => Promise<void>): Promise<void> {
  const span = {traceId, spanId, traceFlags: 1};
  return context.with(trace.setSpanContext(context.active(), span), call);
}

test("calls and watches carry the caller's span, and nothing outside of one", async () => {
  await using server = await MetadataServer.start();
  await using service = connect(server.address);
  await inSpan(() => callAndWatch(service));
  await callAndWatch(service);
  expect(server.values('traceparent')).toEqual([
    ...[traceparent, traceparent],
    ...['', ''],
  ]);
});

test("the caller's own metadata wins, and is not changed", async () => {
  await using server = await MetadataServer.start();
  const metadata = new Metadata();
  metadata.set('traceparent', 'mine');
  await using service = connect(server.address, {metadata});
  await inSpan(() => callAndWatch(service));
  expect(server.values('traceparent')).toEqual(['mine', 'mine']);

  const other = new Metadata();
  await using plain = connect(server.address, {metadata: other});
  await inSpan(() => callAndWatch(plain));
  expect(server.values('traceparent').slice(2)).toEqual([
    traceparent,
    traceparent,
  ]);
  expect(other.get('traceparent')).toEqual([]);
});

test('a propagator that fails ends neither a call nor a watch', async () => {
  await using server = await MetadataServer.start();
  await using service = connect(server.address);
  const warn = vi.spyOn(getLogger(), 'warn').mockReturnValue();
  const failing = new Error('no baggage');
  const inject = vi
    .spyOn(W3CTraceContextPropagator.prototype, 'inject')
    .mockImplementation(() => {
      throw failing;
    });
  await inSpan(() => callAndWatch(service));
  expect(inject).toHaveBeenCalledTimes(2);
  expect(warn.mock.calls.map(([, error]) => error)).toEqual([failing, failing]);
  // A header that gRPC does not accept.
  inject.mockImplementation((_, metadata, setter) =>
    setter.set(metadata, 'not a header', 'ü'),
  );
  vi.spyOn(context, 'active').mockImplementationOnce(() => {
    throw failing;
  });
  await callAndWatch(service);
  expect(server.values('traceparent')).toEqual(['', '', '', '']);
  expect(warn).toHaveBeenCalledTimes(4);
});

test('a propagator does not take the place of the token', async () => {
  await using server = await MetadataServer.start();
  const directory = mkdtempSync(join(tmpdir(), 'sessiond-ts-'));
  const tokenFile = join(directory, 'token');
  writeFileSync(tokenFile, 'mine');
  await using service = connect(server.address, {tokenFile});
  vi.spyOn(W3CTraceContextPropagator.prototype, 'inject').mockImplementation(
    (_, metadata, setter) => setter.set(metadata, 'authorization', 'other'),
  );
  await callAndWatch(service);
  rmSync(directory, {recursive: true});
  expect(server.values('authorization')).toEqual([
    'Bearer mine',
    'Bearer mine',
  ]);
});
