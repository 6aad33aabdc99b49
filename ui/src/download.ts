/** A session as a file. */

import {adkFile, completeFile} from './adk.js';
import {TEXT, call} from './api.js';
import type {Address, Event} from './contract.js';
import {sessionAt} from './session.js';

export type FileForm = 'adk' | 'complete';

const PAGE_SIZE = 1000;

/** Reads a session as it is now and saves it. `progress` gets the number of events so far. */
export async function download(
  address: Address,
  form: FileForm,
  progress: (events: number) => void,
  abort: AbortSignal,
): Promise<void> {
  const session = await sessionAt(address, undefined, abort);
  const created = await sessionAt(address, 0, abort);
  const last = Number(session.lastSequence ?? 0);
  const events: Event[] = [];
  while (events.length < last) {
    const page = await eventsAfter(address, events.length, abort);
    events.push(...page.slice(0, last - events.length));
    progress(events.length);
  }
  const contents = {session, created, events};
  const text = form === 'adk' ? adkFile(contents) : completeFile(contents);
  save(text, `${nameOf(address)}${form === 'adk' ? '' : '.complete'}.session.json`);
}

async function eventsAfter(address: Address, after: number, abort: AbortSignal): Promise<Event[]> {
  const selection = {afterSequence: String(after), includeRewound: true};
  const request = {key: address, pageSize: PAGE_SIZE, selection, ...TEXT};
  for (let pageToken = ''; ;) {
    const page = await call('EventService/ListEvents', {...request, pageToken}, abort);
    pageToken = page.nextPageToken ?? '';
    if (page.events?.length) {
      return page.events;
    }
    if (!pageToken) {
      throw new Error('The session was changed meanwhile. Try again.');
    }
  }
}

/** A name that every file system takes. */
function nameOf({appName, userId, sessionId}: Address): string {
  const names = [appName, userId, sessionId].map(name =>
    name.replace(/[^\w.-]+/g, '_').slice(0, 60),
  );
  return names.join('-').replace(/^\.+/, '');
}

function save(text: string, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
