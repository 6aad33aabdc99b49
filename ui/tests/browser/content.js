// Content of strangers: nothing of it is run, loaded or followed, and all of it is visible.

import assert from 'node:assert/strict';
import {append, call, text, until} from './server.js';

const MARKUP = '<img src=http://evil.example/x onerror="window.hacked=1"><script>hacked=1</script>';

export async function hostile_ids_labels_and_bodies_stay_text({url, writeUrl, open}) {
  const key = {
    appName: '<img src=x onerror=alert(1)>',
    userId: '\u202eevil\u0007/../?#',
    sessionId: '"><script>alert(1)</script>%2f\u200b',
  };
  const session = {displayName: '\u202e<b>title</b>', labels: {'<i>': 'javascript:alert(1)'}};
  const stateJson = '{"<script>":"</script>","__proto__":{"constructor":1}}';
  const request = {...key, session, stateJson, allowExisting: true};
  await call(writeUrl, 'SessionService/CreateSession', request);
  const add = (eventId, body) =>
    append(writeUrl, key, {
      ...{eventId, author: '<svg onload=alert(1)>', branch: '\u202ebranch', body},
      invocationId: 'javascript:alert(1)',
    });
  await add(
    'h1',
    text(`${MARKUP} [x](javascript:alert(1)) https://evil.example/ \u202e \u0000\u009b`),
  );
  await add('h2', text('w'.repeat(1_000_000)));
  const svg = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg">${MARKUP}</svg>`).toString(
    'base64',
  );
  const call1 = {name: '__proto__', id: 'constructor', args: {toString: MARKUP}};
  await add('h3', {
    content: {
      parts: [
        {inlineData: {mimeType: 'image/svg+xml', data: svg}},
        {inlineData: {mimeType: 'image/png', data: 'bm90IGFuIGltYWdl'}},
        {fileData: {mimeType: 'text/html', fileUri: 'javascript:alert(1)'}},
        {functionCall: call1},
      ],
    },
  });
  await add('h4', `{"n":${'['.repeat(90)}1${']'.repeat(90)},"u":"\\ufffe"}`);
  await add('h5', {text: '\u0001'.repeat(100_000), '\u202ename': '\u2066'});

  const tab = await open();
  const {page} = tab;
  const foreign = [];
  page.on('request', request => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:')) {
      foreign.push(request.url());
    }
  });
  await page.goto(url);
  await page.getByRole('link', {name: key.appName}).click();
  await page.getByRole('link', {name: '<b>title</b>'}).click();
  await page.getByRole('heading', {name: '\\u{202e}<b>title</b>'}).waitFor();
  await page.getByText('\\u{7}').first().waitFor();
  const feed = page.getByRole('feed', {name: 'Events'});
  await until('the first event', async () => {
    await page.locator('.events-pane .list').evaluate(list => list.scrollTo(0, 0));
    return (await feed.getByText('window.hacked=1').count()) > 0;
  });
  await feed.getByText('\\u{9b}').first().waitFor();
  await feed.getByRole('button', {name: 'more (999,300 characters)'}).click();
  await feed.getByRole('button', {name: 'more (979,300 characters)'}).waitFor();
  await feed.getByRole('button', {name: 'less'}).click();
  await until('the third event', async () => {
    await page.locator('.events-pane .list').evaluate(list => list.scrollTo(0, 0));
    return (await page.getByLabel('Actions of event 3').count()) > 0;
  });
  await page.getByLabel('Actions of event 3').click();
  await page.getByRole('button', {name: 'Raw JSON'}).click();
  await feed.getByText('image/svg+xml').first().waitFor();
  assert.equal(
    await page.locator('svg, main script, main iframe, main a[href^="javascript"]').count(),
    0,
  );
  for (const link of await page
    .locator('a[href]')
    .evaluateAll(all => all.map(it => it.getAttribute('href')))) {
    assert.match(link, /^#/);
  }
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(foreign, []);
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(nodes < 4000, `${nodes} nodes`);
  assert.equal(
    await page
      .locator('bdi')
      .first()
      .evaluate(it => getComputedStyle(it).unicodeBidi),
    'isolate',
  );
}

export async function images_of_bodies_are_shown(context) {
  const {url, writeUrl, open} = context;
  const key = {appName: 'images', userId: 'u', sessionId: 's'};
  await call(writeUrl, 'SessionService/CreateSession', {...key, allowExisting: true});
  const data =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const body = {content: {parts: [{inlineData: {mimeType: 'image/png', data}}]}};
  await append(writeUrl, key, {eventId: 'e1', body});
  const long = {text: 'QUJD1234'.repeat(50)};
  await append(writeUrl, key, {eventId: 'e2', body: {n: long}});
  const {page} = await open();
  await page.goto(`${url}/#/session/images/u/s`);
  await page.getByRole('img', {name: 'Image of the event, image/png'}).waitFor();
  await page.getByText('base64, 70 bytes').waitFor();
  await page.getByText('base64, 300 bytes').waitFor();
}
