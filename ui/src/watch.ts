/**
 * The watch of the page. There is one at a time, because browsers open six connections to a host.
 *
 * It resumes after the last message when the connection is lost or the server restarts.
 */

import {signal} from '@preact/signals';
import {ApiError, TEXT, messageOf, token, watch} from './api.js';
import type {Scope, WatchResponse} from './contract.js';

export type WatchState =
  | 'off'
  | 'connecting'
  /** Reads what was committed before. */
  | 'catching up'
  | 'live'
  /** What is shown may be old. */
  | 'lost'
  /** The session was deleted, or another one has its id. */
  | 'gone'
  | 'refused';

/** Without a message for this long, the connection counts as lost. The server sends one every 10 s. */
const SILENCE_MS = 25_000;
const MIN_RETRY_MS = 250;
const MAX_RETRY_MS = 5_000;

export const watchState = signal<WatchState>('off');
/** Why the watch is lost or refused. */
export const watchError = signal('');
/** When the page last knew that it is current. */
export const currentAt = signal(0);

let stop: (() => void) | undefined;
let retryNow: (() => void) | undefined;

/** Follows a scope until the returned function is called. Ends the watch before. */
export function follow(scope: Scope, receive: (message: WatchResponse) => void): () => void {
  stop?.();
  const abort = new AbortController();
  const end = () => {
    abort.abort();
    if (stop === end) {
      watchState.value = 'off';
      stop = undefined;
    }
  };
  stop = end;
  void run(scope, receive, abort.signal);
  return end;
}

/** Ends the wait for the next attempt. */
export function reconnect(): void {
  retryNow?.();
}

async function run(
  scope: Scope,
  receive: (message: WatchResponse) => void,
  abort: AbortSignal,
): Promise<void> {
  let cursor = '';
  let delay = MIN_RETRY_MS;
  watchState.value = 'connecting';
  watchError.value = '';
  while (!abort.aborted) {
    const error = await attempt(scope, cursor, abort, message => {
      cursor = message.cursor ?? cursor;
      delay = MIN_RETRY_MS;
      note(message);
      receive(message);
    });
    if (abort.aborted || isGone()) {
      return;
    }
    watchError.value = messageOf(error);
    if (!mayRetry(error)) {
      const isGone = ['BAD_CURSOR', 'SESSION_NOT_FOUND'].includes(reasonOf(error));
      watchState.value = isGone ? 'gone' : 'refused';
      return;
    }
    watchState.value = 'lost';
    await wait(delay, abort);
    delay = Math.min(delay * 2, MAX_RETRY_MS);
  }
}

/** One connection. Returns why it ended. */
async function attempt(
  scope: Scope,
  cursor: string,
  abort: AbortSignal,
  receive: (message: WatchResponse) => void,
): Promise<unknown> {
  const request = {scope, cursor, start: 'WATCH_START_NOW', ...TEXT} as const;
  const connection = new AbortController();
  const end = () => connection.abort();
  abort.addEventListener('abort', end);
  let silence = setTimeout(end, SILENCE_MS);
  try {
    for await (const message of watch(request, connection.signal)) {
      clearTimeout(silence);
      silence = setTimeout(end, SILENCE_MS);
      receive(message);
    }
    return new ApiError('unavailable', 'ENDED', 'The watch has ended.');
  } catch (error) {
    const isSilent = connection.signal.aborted && !abort.aborted;
    return isSilent ? new ApiError('unavailable', 'SILENCE', 'The server is silent.') : error;
  } finally {
    clearTimeout(silence);
    abort.removeEventListener('abort', end);
    connection.abort();
  }
}

function note(message: WatchResponse): void {
  currentAt.value = Date.now();
  watchError.value = '';
  if (message.sessionDeleted) {
    watchState.value = 'gone';
  } else if (message.caughtUp) {
    watchState.value = 'live';
  } else if (watchState.value !== 'live') {
    watchState.value = 'catching up';
  }
}

function isGone(): boolean {
  return watchState.value === 'gone';
}

function reasonOf(error: unknown): string {
  return error instanceof ApiError ? error.reason : '';
}

/** Refusals stay; everything else may pass, such as a proxy's error while the server restarts. */
function mayRetry(error: unknown): boolean {
  const refusals = ['not_found', 'permission_denied', 'unauthenticated', 'invalid_argument'];
  const isRefusal = error instanceof ApiError && refusals.includes(error.code);
  return !isRefusal && reasonOf(error) !== 'CURSOR_OF_OTHER_STORE';
}

function wait(milliseconds: number, abort: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      clearTimeout(timer);
      retryNow = undefined;
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    retryNow = done;
    abort.addEventListener('abort', done, {once: true});
  });
}

// A token that comes later is a reason to try again.
token.subscribe(() => reconnect());
