// A watch that follows and pauses, also of what another replica has committed.

import {openSession} from './opened.js';
import {append, call, text, until} from './server.js';

export async function events_show_as_they_are_appended(context) {
  const {page, key} = await openSession(context, 'follows');
  for (let at = 2; at < 40; at += 1) {
    await append(context.writeUrl, key, {body: text(`said ${at}`), set: {count: at}});
  }
  await page.getByRole('feed').getByText('said 39').waitFor();
  const state = page.getByRole('region', {name: 'State of the session'});
  await state.getByText('39').waitFor();
  const scope = {appName: 'live', userId: 'u'};
  const delta = {setJson: '{"user:elsewhere":"changed"}'};
  await call(context.writeUrl, 'StateService/UpdateState', {scope, delta});
  await page.getByText('user:elsewhere').waitFor();
}

export async function it_pauses_and_catches_up(context) {
  const {page, key, state} = await openSession(context, 'pauses');
  await page.getByRole('button', {name: 'Pause'}).click();
  await append(context.writeUrl, key, {body: text('while paused')});
  await state('paused, 1 new').waitFor();
  await page.getByRole('button', {name: 'Resume'}).click();
  await page.getByText('while paused').waitFor();
  await state('live').waitFor();
}

export async function reading_the_past_is_not_disturbed(context) {
  const {page, key} = await openSession(context, 'past');
  for (let at = 2; at < 60; at += 1) {
    await append(context.writeUrl, key, {eventId: `e${at}`, body: text(`said ${at}`)});
  }
  await page.getByText('said 59').waitFor();
  const list = page.locator('.events-pane .list');
  await list.evaluate(it => it.scrollTo(0, 0));
  await page.getByText('the first').waitFor();
  await append(context.writeUrl, key, {body: text('a new one')});
  await page.getByText('60 events').first().waitFor();
  await until('the place', () => list.evaluate(it => it.scrollTop < 100));
  await page.getByRole('button', {name: 'Follow'}).click();
  await page.getByText('a new one').waitFor();
}

export async function a_rewind_of_another_caller_hides_its_events(context) {
  const {page, key} = await openSession(context, 'rewound');
  await append(context.writeUrl, key, {eventId: 'e2', body: text('a mistake')});
  await page.getByText('a mistake').waitFor();
  await call(context.writeUrl, 'SessionService/RewindSession', {key, toSequence: '1'});
  await page.getByText('2 events hidden by a rewind').waitFor();
  await until('it is hidden', async () => (await page.getByText('a mistake').count()) === 0);
}

export async function a_deleted_session_is_said_to_be_gone(context) {
  const {tab, page, key} = await openSession(context, 'deleted');
  await call(context.writeUrl, 'SessionService/DeleteSession', {key});
  await page.getByText('This session was deleted').waitFor();
  await page.getByText('the first').waitFor();
  await page.getByRole('button', {name: 'Retry now'}).click();
  await page.getByText('The session cannot be shown').waitFor();
  tab.expectFaults(/status of 404/);
}
