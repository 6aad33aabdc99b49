// Changes of a session, with a confirmation that names it.

import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {append, call, text, until} from './server.js';

async function open_session({url, writeUrl, open}, sessionId) {
  const key = {appName: 'do', userId: 'u', sessionId};
  const request = {...key, stateJson: '{"k":1}', allowExisting: true};
  await call(writeUrl, 'SessionService/CreateSession', request);
  for (let at = 1; at <= 3; at += 1) {
    await append(writeUrl, key, {eventId: `e${at}`, body: text(`said ${at}`), set: {k: at}});
  }
  const tab = await open();
  await tab.page.goto(`${url}/#/session/do/u/${sessionId}`);
  await tab.page.getByText('said 3').waitFor();
  return {tab, page: tab.page, key};
}

async function choose(page, menu, item) {
  await page.getByLabel(menu, {exact: true}).click();
  await page.getByRole('button', {name: item}).click();
  return page.getByRole('dialog');
}

export async function a_fork_has_the_events_up_to_there(context) {
  const {tab, page} = await open_session(context, 'source');
  const dialog = await choose(page, 'Actions of event 2', 'Fork here…');
  await dialog.getByText('source').waitFor();
  await tab.checkAccessibility();
  await dialog.getByLabel('Id of the new session').fill('the-fork');
  await dialog.getByRole('button', {name: 'Fork'}).click();
  await page.getByRole('heading', {name: 'the-fork'}).waitFor();
  await page.getByText('said 2').waitFor();
  assert.equal(await page.getByText('said 3').count(), 0);
  await page.getByRole('link', {name: 'source at event 2'}).click();
  await page.getByRole('heading', {name: 'State as of event 2'}).waitFor();
}

export async function a_rewind_hides_what_came_after(context) {
  const {page} = await open_session(context, 'rewind');
  const dialog = await choose(page, 'Actions of event 1', 'Rewind to here…');
  await dialog.getByText('2 events will be hidden').waitFor();
  await page.keyboard.press('Escape');
  await until('it is closed', async () => (await page.getByRole('dialog').count()) === 0);
  const again = await choose(page, 'Actions of event 1', 'Rewind to here…');
  await again.getByRole('button', {name: 'Rewind'}).click();
  await page.getByText('3 events hidden by a rewind (2–4)').waitFor();
  const state = page.getByRole('region', {name: 'State of the session'});
  await state.getByText('1', {exact: true}).first().waitFor();
}

export async function a_session_is_deleted_after_its_id_was_typed(context) {
  const {page, key} = await open_session(context, 'delete');
  const dialog = await choose(page, 'Actions of the session', 'Delete…');
  const button = dialog.getByRole('button', {name: 'Delete'});
  assert.equal(await button.isDisabled(), true);
  await dialog.getByLabel('Id of the session').fill('delete');
  await button.click();
  await page.getByRole('table', {name: 'Sessions'}).waitFor();
  await assert.rejects(call(context.writeUrl, 'SessionService/GetSession', {key}), /NOT_FOUND/);
}

export async function a_key_is_changed_only_as_it_was_seen(context) {
  const {tab, page, key} = await open_session(context, 'edit');
  const row = page
    .getByRole('listitem')
    .filter({has: page.getByRole('button', {name: 'k history'})});
  const change = async value => {
    await row.last().hover();
    await page.getByRole('button', {name: /Change .k/}).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Value as JSON').fill(value);
    return dialog;
  };
  let dialog = await change('not JSON');
  assert.equal(await dialog.getByRole('button', {name: 'Save'}).isDisabled(), true);
  await dialog.getByLabel('Value as JSON').fill('12345678901234567890');
  await dialog.getByRole('button', {name: 'Save'}).click();
  await until('it is closed', async () => (await page.getByRole('dialog').count()) === 0);
  await page
    .getByRole('region', {name: 'State of the session'})
    .getByText('12345678901234567890')
    .waitFor();

  dialog = await change('"mine"');
  await append(context.writeUrl, key, {eventId: 'other', set: {k: 'theirs'}});
  await dialog.getByRole('button', {name: 'Save'}).click();
  await dialog.getByText('KEY_CONFLICT').waitFor();
  await dialog.getByRole('button', {name: 'Cancel'}).click();
  const answer = await call(context.writeUrl, 'SessionService/GetSession', {
    key,
    jsonForm: 'JSON_FORM_TEXT',
  });
  assert.equal(JSON.parse(answer.session.stateJson).k, 'theirs');
  tab.expectFaults(/status of 409/);
}

export async function a_session_is_downloaded_in_both_forms(context) {
  const {page} = await open_session(context, 'download');
  const save = async item => {
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      choose(page, 'Actions of the session', item),
    ]);
    return {name: file.suggestedFilename(), path: await file.path()};
  };
  const adk = await save('Download as ADK file');
  assert.equal(adk.name, 'do-u-download.session.json');
  const session = JSON.parse(readFileSync(adk.path, 'utf8'));
  assert.deepEqual(
    session.events.map(event => event.actions.stateDelta.k),
    [1, 2, 3],
  );
  const complete = await save('Download complete');
  if (context.server) {
    const into = ['--into-app', 'copied', '--into-user', 'u'];
    await context.server.command(['import', complete.path, ...into]);
    const key = {appName: 'copied', userId: 'u', sessionId: 'download'};
    const copy = await call(context.url, 'EventService/ListEvents', {
      key,
      jsonForm: 'JSON_FORM_TEXT',
    });
    assert.deepEqual(
      copy.events.map(event => event.eventId),
      ['e1', 'e2', 'e3'],
    );
  }
}

export async function shared_state_is_shown_and_changed(context) {
  const scope = {appName: 'shared', userId: 'u'};
  const delta = {setJson: '{"app:a":1,"user:b":[1]}'};
  await call(context.writeUrl, 'StateService/UpdateState', {scope, delta});
  const tab = await context.open();
  const {page} = tab;
  await page.goto(`${context.url}/#/state/shared/u`);
  await page.getByText('app:a').waitFor();
  await page.getByRole('button', {name: 'Set a key…'}).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Key, with its prefix').fill('user:new');
  await dialog.getByLabel('Value as JSON').fill('"given"');
  await dialog.getByRole('button', {name: 'Save'}).click();
  await page.getByRole('region', {name: 'State of the user'}).getByText('given').waitFor();
  await page.getByRole('button', {name: 'user:new history'}).click();
  await page.getByRole('region', {name: 'History of a key'}).getByText('inspector').waitFor();
  await tab.checkAccessibility();
}
