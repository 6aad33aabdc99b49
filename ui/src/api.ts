/** The client: calls and the stream of a watch, by the Connect protocol with JSON. */

import {signal} from '@preact/signals';
import type {Calls, WatchRequest, WatchResponse} from './contract.js';
import {EnvelopeReader, writeEnvelope} from './envelope.js';

/** State and bodies as text, so that numbers are exact. */
export const TEXT = {jsonForm: 'JSON_FORM_TEXT'} as const;
const TOKEN = 'sessiond-token';

export const token = signal(sessionStorage.getItem(TOKEN) ?? '');
/** The server has refused the credential, or the lack of one. */
export const needsToken = signal(false);
/** No write is offered. */
export const isReadOnly = signal(false);
/** Callers differ in their rights. */
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
  token.value = text.trim();
  sessionStorage.setItem(TOKEN, token.value);
  needsToken.value = false;
}

/** Takes the token out of `#token=…`, so that neither the history nor a copied address has it. */
export function takeToken(): void {
  const given = /^#token=([^&]*)&?(.*)$/.exec(location.hash);
  if (given?.[1]) {
    setToken(decodeURIComponent(given[1]));
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
  return (await response.json()) as Calls[M][1];
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

function errorOf(error: ErrorJson, status: number): ApiError {
  const {code = 'unknown', message, details = []} = error;
  const info = details.find(({type}) => type.endsWith('google.rpc.ErrorInfo'))?.debug;
  needsToken.value ||= code === 'unauthenticated';
  return new ApiError(
    code,
    info?.reason ?? '',
    message || `The server answered with status ${status}.`,
  );
}

/** An error for people. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.reason) {
    return `${error.message} (${error.reason})`;
  }
  return error instanceof Error ? error.message : String(error);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
