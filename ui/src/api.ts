/** The client: calls, pages and the stream of a watch, by the Connect protocol with JSON. */

import {signal, type Signal} from '@preact/signals';
import type {Address, Calls, WatchRequest, WatchResponse} from './contract.js';
import {decode} from './route.js';

/** State and bodies as text, so that numbers are exact. */
export const TEXT = {jsonForm: 'JSON_FORM_TEXT'} as const;
const TOKEN = 'sessiond-token';
/** An id that no invocation has: ending it changes nothing. */
const NO_INVOCATION = 'sessiond-inspector';

export const token = signal(sessionStorage.getItem(TOKEN) ?? '');
/** The server has refused the credential, or the lack of one. */
export const needsToken = signal(false);
/** The server takes no changes, so that the page offers none. */
export const isReadOnly = signal(false);
/** The server asks for credentials, so that callers may differ in their rights. */
export const hasIdentities = signal(false);

export class ApiError extends Error {
  constructor(
    /** Of the Connect protocol: `not_found`. */
    readonly code: string,
    /** Of ErrorInfo: `SESSION_NOT_FOUND`. */
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

export function setToken(text: string): void {
  // A header takes no other characters, and no token has them.
  token.value = text.replace(/[^\x21-\x7e]/g, '');
  sessionStorage.setItem(TOKEN, token.value);
  needsToken.value = false;
}

/** Takes the token out of `#token=…`, so that neither the history nor a copied address has it. */
export function takeToken(): void {
  const given = /^#token=([^&]*)&?(.*)$/.exec(location.hash);
  if (given?.[1]) {
    setToken(decode(given[1]));
    history.replaceState(null, '', `${location.pathname}#${given[2] || '/'}`);
  }
}

/** Reads the settings that the server gives without a credential. */
export async function loadSettings(): Promise<void> {
  const response = await fetch('/inspector.json', {cache: 'no-store'});
  const settings = (await response.json()) as {readOnly?: boolean; needsCredential?: boolean};
  isReadOnly.value = settings.readOnly === true;
  hasIdentities.value = settings.needsCredential === true;
}

/** Makes a unary call. Throws an ApiError, or an AbortError if the signal says so. */
export async function call<M extends keyof Calls>(
  method: M,
  request: Calls[M][0],
  abort: AbortSignal | null = null,
): Promise<Calls[M][1]> {
  const response = await send(method, 'application/json', JSON.stringify(request), abort);
  const answer = (await response.json()) as Calls[M][1];
  abort?.throwIfAborted();
  return answer;
}

/** The pages of a list, one by one. */
export async function* pages<M extends keyof Calls>(
  method: M,
  request: Calls[M][0],
  abort: AbortSignal | null = null,
) {
  let pageToken: string | undefined;
  do {
    const page = await call(method, {...request, pageToken}, abort);
    yield page;
    ({nextPageToken: pageToken} = page as {nextPageToken?: string});
  } while (pageToken);
}

/** The messages of a watch, until it ends or fails. */
export async function* watch(request: WatchRequest, abort: AbortSignal) {
  const body = writeEnvelope(JSON.stringify(request));
  const response = await send('WatchService/Watch', 'application/connect+json', body, abort);
  const reader = new EnvelopeReader();
  const pieces = response.body?.getReader();
  for (let next = await pieces?.read(); next?.value; next = await pieces?.read()) {
    for (const {text, isEnd} of reader.push(next.value)) {
      if (!isEnd) {
        yield JSON.parse(text) as WatchResponse;
        continue;
      }
      const {error} = JSON.parse(text) as {error?: ErrorJson};
      if (error) {
        throw errorOf(error, 0);
      }
      return;
    }
  }
  throw new ApiError('unavailable', 'CONNECTION_LOST', 'The connection was lost.');
}

/**
 * Whether the caller may change a session. Asks by a call that needs the right to write and has no
 * effect, so that the page does not offer what would be refused.
 */
export async function mayWrite(key: Address): Promise<boolean> {
  if (isReadOnly.value || !hasIdentities.value) {
    return !isReadOnly.value;
  }
  return call('StateService/EndInvocation', {key, invocationId: NO_INVOCATION}).then(
    () => true,
    (error: unknown) => !isRefusal(error),
  );
}

async function send(method: string, type: string, body: BodyInit, signal: AbortSignal | null) {
  const authorization = token.value && {authorization: `Bearer ${token.value}`};
  const headers = {'content-type': type, ...(authorization || {})};
  const options = {method: 'POST', headers, body, signal, cache: 'no-store'} as const;
  const response = await fetch(`/sessiond.v1.${method}`, options).catch((error: unknown) => {
    const lost = new ApiError('unavailable', 'NO_CONNECTION', 'The server cannot be reached.');
    throw signal?.aborted ? error : lost;
  });
  if (!response.ok) {
    throw errorOf((await response.json().catch(() => ({}))) as ErrorJson, response.status);
  }
  return response;
}

interface ErrorJson {
  code?: string;
  message?: string;
  details?: {type: string; debug?: {reason?: string}}[];
}

function errorOf({code = 'unknown', message, details}: ErrorJson, status: number): ApiError {
  const info = details?.find(({type}) => type.endsWith('google.rpc.ErrorInfo'))?.debug;
  needsToken.value ||= code === 'unauthenticated' || status === 401;
  const text = message || `The server answered with status ${status}.`;
  return new ApiError(code, info?.reason ?? '', text);
}

export function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'permission_denied';
}

/** The text of an error, for people. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.reason) {
    return `${error.message} (${error.reason})`;
  }
  return error instanceof Error ? error.message : String(error);
}

/** Runs something and keeps the text of its error. Being stopped is no error. */
export async function attempt(error: Signal<string>, run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
    error.value = '';
  } catch (failure) {
    error.value = (failure as Error).name === 'AbortError' ? error.value : messageOf(failure);
  }
}

const HEADER_BYTES = 5;
/** The flag of the last message, which has no content but an error. */
const END = 2;

export interface Envelope {
  text: string;
  isEnd: boolean;
}

export function writeEnvelope(text: string): Uint8Array<ArrayBuffer> {
  const content = new TextEncoder().encode(text);
  const header = new Uint8Array(HEADER_BYTES);
  new DataView(header.buffer).setUint32(1, content.length);
  return join(header, content);
}

/** Makes envelopes of the pieces of a response. */
export class EnvelopeReader {
  #rest = new Uint8Array();

  /** Adds a piece, and returns the envelopes that are complete now. */
  push(piece: Uint8Array): Envelope[] {
    const bytes = join(this.#rest, piece);
    const envelopes: Envelope[] = [];
    let start = 0;
    for (let end = endOf(bytes, start); end <= bytes.length; end = endOf(bytes, start)) {
      const text = new TextDecoder().decode(bytes.subarray(start + HEADER_BYTES, end));
      envelopes.push({text, isEnd: ((bytes[start] ?? 0) & END) !== 0});
      start = end;
    }
    this.#rest = bytes.subarray(start);
    return envelopes;
  }
}

function endOf({buffer, length}: Uint8Array, start: number): number {
  const body = start + HEADER_BYTES;
  return body > length ? Infinity : body + new DataView(buffer).getUint32(start + 1);
}

function join(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}
