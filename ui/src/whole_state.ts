/** State that may not fit into one answer. */

import {TEXT, call} from './api.js';
import type {Scope, Session} from './contract.js';

/** Everything visible from a scope now, page by page, in the form of a session's state. */
export async function wholeState(scope: Scope, abort?: AbortSignal): Promise<Session> {
  const members: string[] = [];
  const versions: Record<string, string> = {};
  let uid = '';
  let pageToken = '';
  do {
    const request = {scope, includeVersions: true, pageToken, ...TEXT};
    const page = await call('StateService/GetState', request, abort);
    members.push((page.stateJson ?? '{}').trim().slice(1, -1));
    Object.assign(versions, page.versions);
    uid = page.uid ?? uid;
    pageToken = page.nextPageToken ?? '';
  } while (pageToken);
  return {stateJson: `{${members.filter(text => text.trim()).join(',')}}`, versions, uid};
}
