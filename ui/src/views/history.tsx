/** How a key came to its value: who, when, from what to what. */

import {useSignal} from '@preact/signals';
import {TEXT, call} from '../api.js';
import type {KeyChange, Scope} from '../contract.js';
import {parseJson} from '../json.js';
import {href, routeTo} from '../route.js';
import {Button, Link, Notice, shown, timeAgo, useRead} from './common.js';
import {Value} from './keys.js';

const PAGE_SIZE = 50;

interface Props {
  /** From which the key is seen. */
  scope: Scope;
  name: string;
  /** Rises when there may be a new change. */
  version: number;
  close: () => void;
}

export function History({scope, name, version, close}: Props) {
  const pages = useSignal(1);
  const read = async (abort: AbortSignal) => {
    const changes: KeyChange[] = [];
    let pageToken = '';
    for (let page = 0; page < pages.value && (page === 0 || pageToken); page += 1) {
      const request = {scope, key: name, pageSize: PAGE_SIZE, pageToken, ...TEXT};
      const answer = await call('StateService/ListKeyChanges', request, abort);
      changes.push(...(answer.changes ?? []));
      pageToken = answer.nextPageToken ?? '';
    }
    return {changes, hasMore: pageToken !== ''};
  };
  const {value, message} = useRead(read, [name, version, pages.value]);
  const {changes, hasMore} = value ?? {};
  return (
    <section class="history" aria-label="History of a key">
      <div class="pane-head">
        <h2>{shown(name || '(empty key)')}</h2>
        <Button label="Back to the state" run={close} />
      </div>
      <Notice text={message} />
      {changes?.length === 0 && <p class="dim">No changes are known.</p>}
      <ol>
        {changes?.map((change, at) => (
          <Change key={change.version} {...{change, before: changes[at + 1]}} />
        ))}
      </ol>
      {hasMore && <Link label="older changes" run={() => (pages.value += 1)} />}
    </section>
  );
}

function Change({change, before}: {change: KeyChange; before: KeyChange | undefined}) {
  const {author, commitTime, version = '0', valueJson, session, sequence} = change;
  const {appName, userId, sessionId} = session ?? {};
  const to = {...routeTo('session', appName, userId, sessionId), at: Number(sequence ?? 0)};
  return (
    <li>
      <strong>{shown(author || 'at creation')}</strong>{' '}
      {sessionId && <a href={href(to)}>{[shown(sessionId, 40), ` #${to.at}`]}</a>}{' '}
      {timeAgo(commitTime)} <span class="dim">version {version}</span>
      {before?.valueJson && <Value json={parseJson(before.valueJson)} kind="before" />}
      <Value json={valueJson === undefined ? undefined : parseJson(valueJson)} kind="after" />
    </li>
  );
}
