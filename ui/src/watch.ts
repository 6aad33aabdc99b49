/**
 * The watch of the page. There is one at a time, because browsers open six connections to a host.
 *
 * It resumes after the last message when the connection is lost or the server restarts.
 */

import {signal} from '@preact/signals';
import {ApiError, TEXT, messageOf, watch} from './api.js';
import type {Scope, WatchResponse} from './contract.js';

/** `lost`: what is shown may be old. `gone`: the session was deleted, or another one has its id. */
type WatchState = 'off' | 'connecting' | 'catching up' | 'live' | 'lost' | 'gone' | 'refused';

/** Without a message for this long, the connection is lost. The server sends one every 10 s. */
const SILENCE_MS = 25_000;
const MIN_RETRY_MS = 250;
const MAX_RETRY_MS = 5_000;
/** Errors that stay. All others may pass, such as a proxy's while the server restarts. */
const REFUSALS = ['not_found', 'permission_denied', 'unauthenticated', 'invalid_argument'];
const REASONS_OF_GONE = ['BAD_CURSOR', 'SESSION_NOT_FOUND'];

export const watchState = signal<WatchState>('off');
/** Why the watch is lost or refused. */
export const watchError = signal('');
/** When the page last knew that it is current. */
export const currentAt = signal(0);

type Receive = (message: WatchResponse) => void;
let stop = () => {};
let endWait = () => {};

/** Follows a scope until the returned function is called. Ends the watch before. */
export function follow(scope: Scope, receive: Receive): () => void {
  stop();
  const abort = new AbortController();
  const end = () => {
    if (!abort.signal.aborted) {
      abort.abort();
      endWait();
      watchState.value = 'off';
    }
  };
  stop = end;
  void run(scope, receive, abort.signal);
  return end;
}

/** Ends the wait for the next attempt. */
export function reconnect(): void {
  endWait();
}

async function run(scope: Scope, receive: Receive, abort: AbortSignal): Promise<void> {
  let cursor = '';
  let delay = MIN_RETRY_MS;
  watchState.value = 'connecting';
  currentAt.value = 0;
  while (!abort.aborted) {
    const error = await connect(scope, cursor, abort, message => {
      cursor = message.cursor ?? cursor;
      delay = MIN_RETRY_MS;
      note(message);
      receive(message);
    });
    if (abort.aborted || watchState.peek() === ('gone' as WatchState)) {
      return;
    }
    watchError.value = messageOf(error);
    if (error instanceof ApiError && REFUSALS.includes(error.code)) {
      watchState.value = REASONS_OF_GONE.includes(error.reason) ? 'gone' : 'refused';
      return;
    }
    watchState.value = 'lost';
    await new Promise<void>(resolve => {
      setTimeout(resolve, delay);
      endWait = resolve;
    });
    delay = Math.min(delay * 2, MAX_RETRY_MS);
  }
}

/** One connection. Returns why it ended. */
async function connect(scope: Scope, cursor: string, abort: AbortSignal, receive: Receive) {
  const silence = new AbortController();
  const wake = () => silence.abort(new ApiError('unavailable', '', 'The server is silent.'));
  let timer = setTimeout(wake, SILENCE_MS);
  const request = {scope, cursor, start: 'WATCH_START_NOW', ...TEXT} as const;
  try {
    for await (const message of watch(request, AbortSignal.any([abort, silence.signal]))) {
      clearTimeout(timer);
      timer = setTimeout(wake, SILENCE_MS);
      receive(message);
    }
    return new ApiError('unavailable', '', 'The watch has ended.');
  } catch (error) {
    return silence.signal.aborted ? silence.signal.reason : error;
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

function note(message: WatchResponse): void {
  currentAt.value = Date.now();
  if (message.sessionDeleted) {
    watchState.value = 'gone';
  } else if (message.caughtUp) {
    watchState.value = 'live';
  } else if (watchState.value !== 'live') {
    watchState.value = 'catching up';
  }
}
