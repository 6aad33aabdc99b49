// A session with one event, open in a page that is live.

import {append, call, text} from './server.js';

export async function openSession({url, writeUrl, open}, sessionId) {
  const key = {appName: 'live', userId: 'u', sessionId};
  await call(writeUrl, 'SessionService/CreateSession', {...key, allowExisting: true});
  await append(writeUrl, key, {eventId: 'e1', body: text('the first')});
  const tab = await open();
  await tab.page.goto(`${url}/#/session/live/u/${sessionId}`);
  await tab.page.getByText('the first').waitFor();
  const state = name => tab.page.getByRole('group', {name: 'Live'}).getByText(name);
  await state('live').waitFor();
  return {tab, page: tab.page, key, state};
}
