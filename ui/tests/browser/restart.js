// A server that is killed and restarted while the page watches.

import {openSession} from './opened.js';
import {append, text, until} from './server.js';

export const needsOwnServer = true;

export async function a_killed_server_is_noticed_and_caught_up_with(context) {
  const {tab, page, key, state} = await openSession(context, 'killed');
  await context.server.kill();
  await page.getByText('Not current').waitFor();
  await state('lost').waitFor();
  await context.server.run();
  await append(context.writeUrl, key, {body: text('after the restart')});
  await page.getByText('after the restart').waitFor();
  await state('live').waitFor();
  await until('no warning', async () => (await page.getByText('Not current').count()) === 0);
  tab.expectFaults(/ERR_|Failed to load resource/);
}
