// Applications, users and sessions.

import assert from 'node:assert/strict';
import {Server, append, call, text, until} from './server.js';

const MAX_NODES = 1500;

async function create(url, appName, userId, sessionId, more = {}) {
  const request = {appName, userId, sessionId, allowExisting: true, ...more};
  await call(url, 'SessionService/CreateSession', request);
  return {appName, userId, sessionId};
}

export async function an_empty_store_says_what_to_do_next({url, open, defer}) {
  const server = await Server.start();
  defer(() => server.stop());
  const tab = await open();
  await tab.page.goto(server.url);
  await tab.page.getByText('sessiond demo').waitFor();
  await tab.checkAccessibility();
  const {page} = await open();
  await page.goto(`${url}/#/sessions/no-such-application`);
  await page.getByText('No sessions yet').waitFor();
}

export async function sessions_are_found_by_application_user_and_label({url, writeUrl, open}) {
  const key = await create(writeUrl, 'find', 'ann', 'one', {
    session: {displayName: 'The first one', labels: {tier: 'gold'}, ttl: '864000s'},
  });
  await create(writeUrl, 'find', 'ben', 'two', {session: {labels: {tier: 'free'}}});
  await append(writeUrl, key, {eventId: 'e1', body: text('hello', 'user'), author: 'ann'});
  await append(writeUrl, key, {eventId: 'e2', body: text('the last message')});
  const tab = await open();
  const {page} = tab;
  await page.goto(url);
  await page.getByRole('link', {name: 'find', exact: true}).click();
  const row = page.getByRole('row').filter({hasText: 'The first one'});
  await row.getByText('agent: the last message').waitFor();
  await row.getByText('expires in 9 d').waitFor();
  await row.getByRole('cell', {name: '2', exact: true}).waitFor();
  await page.getByRole('link', {name: 'two'}).waitFor();
  await tab.checkAccessibility();

  await page.getByLabel('label=value').fill('tier=gold');
  await page.getByLabel('label=value').press('Enter');
  await page.getByText('1 session, as of').waitFor();
  assert.match(page.url(), /label=tier%3Dgold/);
  await page.reload();
  await page.getByText('1 session, as of').waitFor();
  assert.equal(await page.getByRole('link', {name: 'two'}).count(), 0);
  await page.goBack();
  await page.getByRole('link', {name: 'two'}).waitFor();

  await page.getByRole('link', {name: 'Users'}).click();
  await page.getByRole('link', {name: 'ben'}).click();
  await page.getByText('1 session, as of').waitFor();
  await page.getByLabel('User id').fill('nobody');
  await page.getByLabel('User id').press('Enter');
  await page.getByText('No session passes the filter').waitFor();
  await page.getByRole('button', {name: 'Show all sessions'}).click();
  await page.getByText('2 sessions, as of').waitFor();
}

export async function ten_thousand_sessions_are_read_page_by_page({url, writeUrl, open, scale}) {
  const count = Math.ceil(10_000 / scale);
  let next = 0;
  const work = async () => {
    for (let at = next++; at < count; at = next++) {
      await create(writeUrl, 'many', `u${at % 20}`, `s${String(at).padStart(5, '0')}`);
    }
  };
  await Promise.all(Array.from({length: 16}, work));
  const {page} = await open();
  let reads = 0;
  page.on('request', request => (reads += request.url().endsWith('/ListSessions') ? 1 : 0));
  await page.goto(`${url}/#/sessions/many`);
  await page.getByText('so far').waitFor();
  assert.ok(reads <= 3, `${reads} pages at first`);
  const nodes = () => page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok((await nodes()) < MAX_NODES);
  await page.getByLabel('jump to').fill('2020-01-01T00:00');
  await page.getByText(`${count.toLocaleString('en')} sessions, as of`).waitFor();
  await page
    .getByRole('link', {name: /s0000\d/})
    .first()
    .waitFor();
  assert.ok((await nodes()) < MAX_NODES, `${await nodes()} nodes`);

  // Back finds the place again.
  const link = page.getByRole('link', {name: /s\d{5}/}).nth(5);
  const name = await link.innerText();
  await until('the place is saved', () => page.evaluate(() => history.state?.place?.row > 0));
  await link.click();
  await page.getByText('No events yet').waitFor();
  await page.goBack();
  await page.getByRole('link', {name}).waitFor();
}

export async function a_session_opens_by_its_id_alone({url, writeUrl, open}) {
  await create(writeUrl, 'bare', 'u', 'only-one-has-this-id');
  const {page} = await open();
  await page.goto(url);
  await page.getByLabel('Session id').fill('only-one-has-this-id');
  await page.getByRole('button', {name: 'Open'}).click();
  await page.getByRole('heading', {name: 'only-one-has-this-id'}).waitFor();
  assert.match(page.url(), /#\/session\/bare\/u\/only-one-has-this-id/);
}
