// Tokens, a policy, and a listener that is for reading only.

import assert from 'node:assert/strict';
import {chmodSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {Server, append, call, text, until} from './server.js';

export const needsOwnServer = true;

const POLICY = ['a', 'b']
  .map(
    tenant => `[[rule]]
name = "tenant ${tenant}"
principals = ["token:${tenant}"]
applications = ["app-${tenant}"]
users = "*"
rights = ["write", "write_app_state"]
`,
  )
  .concat(
    `[[rule]]
name = "readers"
principals = ["token:reader"]
applications = ["app-a"]
users = "*"
rights = ["read"]

[[rule]]
name = "operators"
principals = ["token:admin"]
applications = ["*"]
users = "*"
rights = ["admin", "read"]
`,
  )
  .join('\n');

/** A server with two tenants, a reader and an operator, and a session of each tenant. */
async function withTenants(defer) {
  const maker = new Server([]);
  const tokens = {};
  let hashes = '';
  for (const name of ['a', 'b', 'reader', 'admin']) {
    const file = join(maker.directory, `${name}.token`);
    await maker.command(['token', 'new', '--out', file]);
    tokens[name] = readFileSync(file, 'utf8').trim();
    hashes += `${await maker.command(['token', 'hash', name], tokens[name])}\n`;
  }
  const [hashFile, policyFile] = ['tokens.toml', 'policy.toml'].map(it =>
    join(maker.directory, it),
  );
  writeFileSync(hashFile, hashes);
  writeFileSync(policyFile, POLICY);
  chmodSync(hashFile, 0o600);
  chmodSync(policyFile, 0o600);
  const server = await Server.start(['--token-hashes', hashFile, '--policy', policyFile]);
  defer(() => server.stop());
  for (const tenant of ['a', 'b']) {
    const key = {appName: `app-${tenant}`, userId: 'u', sessionId: 's'};
    const token = tokens[tenant];
    await call(server.url, 'SessionService/CreateSession', key, token);
    const set = {'app:x': `secret of ${tenant}`};
    await append(server.url, key, {eventId: 'e1', body: text(`secret of ${tenant}`), set}, token);
  }
  return {server, tokens};
}

async function signIn(page, token) {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', {name: 'Use the token'}).click();
}

const REFUSED = /status of (401|403)/;

export async function a_tenant_never_sees_a_byte_of_another_one({open, defer}) {
  const {server, tokens} = await withTenants(defer);
  const tab = await open();
  const {page} = tab;
  await page.goto(`${server.url}/#/session/app-b/u/s`);
  await page.getByText('This server asks for a token.').waitFor();
  await tab.checkAccessibility();
  await signIn(page, 'wrong');
  await page.getByText('The server refused the token').waitFor();
  await signIn(page, tokens.a);
  await page.getByText('The session cannot be shown').waitFor();
  for (const place of ['sessions/app-b', 'users/app-b', 'state/app-b', 'state/app-b/u']) {
    await page.goto(`${server.url}/#/${place}`);
    await page
      .getByText(/does not have the right|You may not list/)
      .first()
      .waitFor();
  }
  await page.goto(`${server.url}/#/`);
  await page.getByText('You may not list them').waitFor();
  await page.getByLabel('Application').fill('app-a');
  await page.getByRole('button', {name: 'Open'}).click();
  await page.getByRole('link', {name: 's', exact: true}).click();
  await page.getByText('secret of a').first().waitFor();
  const seen = [...tab.received, await page.evaluate(() => document.body.innerText)].join('\n');
  assert.ok(seen.includes('secret of a'));
  assert.ok(!seen.includes('secret of b'));
  tab.expectFaults(REFUSED);

  await page.getByRole('button', {name: 'Sign out'}).click();
  await page.getByText('This server asks for a token.').waitFor();
  assert.equal(await page.getByText('secret of a').count(), 0);
  assert.equal(await page.evaluate(() => sessionStorage.getItem('sessiond-token')), '');
}

export async function the_token_of_the_fragment_is_taken_and_removed({open, defer}) {
  const {server, tokens} = await withTenants(defer);
  const tab = await open();
  const {page} = tab;
  await page.goto(`${server.url}/#token=${tokens.admin}`);
  await page.getByRole('link', {name: 'app-a'}).waitFor();
  await page.getByRole('link', {name: 'app-b'}).waitFor();
  assert.ok(!page.url().includes('token'));
  await page.reload();
  await page.getByRole('link', {name: 'app-a'}).waitFor();
}

export async function what_a_caller_may_not_do_is_not_offered({open, defer}) {
  const {server, tokens} = await withTenants(defer);
  for (const [name, mayWrite] of [
    ['a', true],
    ['reader', false],
  ]) {
    const tab = await open();
    const {page} = tab;
    await page.goto(`${server.url}/#token=${tokens[name]}&/session/app-a/u/s`);
    await page.getByText('secret of a').first().waitFor();
    const offers = page.getByRole('button', {name: 'Set a key…'});
    if (mayWrite) {
      await offers.waitFor();
    }
    await page.getByLabel('Actions of event 1').click();
    await page.getByRole('button', {name: 'Copy link', exact: true}).waitFor();
    const fork = page.getByRole('button', {name: 'Fork here…'});
    await until('what is offered', async () => (await fork.count()) === (mayWrite ? 1 : 0));
    tab.expectFaults(REFUSED);
  }
}

export async function a_read_only_listener_offers_no_change({open, defer}) {
  const server = await Server.start(['--http-read-only']);
  defer(() => server.stop());
  await server.command(['demo']);
  const key = {appName: 'demo', userId: 'alice', sessionId: 'rain-shoes'};
  const refused = call(server.url, 'SessionService/DeleteSession', {key});
  await assert.rejects(refused, /READ_ONLY_LISTENER/);
  const tab = await open();
  const {page} = tab;
  await page.goto(`${server.url}/#/session/demo/alice/rain-shoes`);
  await page.getByText('read-only').waitFor();
  await page.getByRole('heading', {name: 'State now'}).waitFor();
  await page.getByText('Harbour boot').first().waitFor();
  for (const name of ['Set a key…', /Change /]) {
    assert.equal(await page.getByRole('button', {name}).count(), 0);
  }
  await page.getByLabel('Actions of the session').click();
  await page.getByRole('button', {name: 'Download complete'}).waitFor();
  assert.equal(await page.getByRole('button', {name: 'Delete…'}).count(), 0);
  await tab.checkAccessibility();
}

export async function the_server_shows_its_condition({url, open}) {
  // A server without the call still says that it is serving.
  const info = await call(url, 'AdminService/GetServerInfo', {}).catch(() => ({}));
  const tab = await open();
  const {page} = tab;
  await page.goto(url);
  await page.getByText('serving', {exact: true}).click();
  const corner = page.getByRole('definition');
  await corner.first().waitFor();
  if (typeof info.version === 'string') {
    await corner.getByText(info.version).first().waitFor();
  } else {
    tab.expectFaults(/status of (404|501)/);
  }
  await tab.checkAccessibility();
}
