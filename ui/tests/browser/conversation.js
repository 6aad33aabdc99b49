// A session as a conversation, its state in time, and what is found in it.

import assert from 'node:assert/strict';
import {append, call, text, until} from './server.js';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

/** A session with calls, branches, changes of state and a rewind. */
async function sample(url, sessionId) {
  const key = {appName: 'talk', userId: 'ann', sessionId};
  const stateJson = '{"app:currency":"EUR","user:size":42,"topic":"none"}';
  await call(url, 'SessionService/CreateSession', {...key, stateJson, allowExisting: true});
  const add = (eventId, event) => append(url, key, {eventId, invocationId: 'turn-1', ...event});
  await add('e1', {author: 'user', body: text('Shoes, please.', 'user')});
  const call1 = {functionCall: {id: 'c1', name: 'search', args: {size: 42, filter: '{"a":[1]}'}}};
  await add('e2', {branch: 'root.shop', body: {content: {parts: [call1]}}, set: {topic: 'shoes'}});
  const result = {functionResponse: {id: 'c1', name: 'search', response: {sku: 'B-117'}}};
  await add('e3', {body: {content: {parts: [result]}}, set: '{"price":12345678901234567890}'});
  const usage = {usageMetadata: {totalTokenCount: 412}};
  const thought = {thought: true, text: 'A boot fits.'};
  const parts = [thought, {text: 'Take the boot.'}];
  await add('e4', {body: {content: {parts}, ...usage}, set: {'user:size': 43}});
  await add('e5', {
    invocationId: 'turn-2',
    body: {errorCode: 'TIMEOUT', errorMessage: 'no answer'},
  });
  await call(url, 'SessionService/RewindSession', {key, toSequence: '4', eventId: 'rewind'});
  await add('e6', {invocationId: 'turn-3', author: 'user', body: text('Thanks!', 'user')});
  return {...key, path: `#/session/talk/ann/${sessionId}`};
}

const event = (page, sequence) =>
  page.getByRole('article', {name: new RegExp(`^Event ${sequence},`)});

export async function a_session_is_a_conversation({url, writeUrl, open}) {
  const key = await sample(writeUrl, 'shown');
  for (const colorScheme of ['light', 'dark']) {
    const tab = await open({colorScheme});
    const {page} = tab;
    await page.goto(`${url}/${key.path}`);
    await event(page, 1).getByText('Shoes, please.').waitFor();
    const call = event(page, 2);
    await call.getByText('root.shop').waitFor();
    await call.getByText('B-117').waitFor();
    await call.getByText('JSON in text').waitFor();
    await event(page, 3).getByText('beside its call at').waitFor();
    await event(page, 4).getByText('412 tokens').waitFor();
    await event(page, 4).getByText('Thought').click();
    await event(page, 4).getByText('A boot fits.').waitFor();
    await page.getByRole('button', {name: 'invocation turn-1'}).waitFor();
    assert.equal(await event(page, 5).count(), 0);
    await tab.checkAccessibility();
    await page.getByRole('button', {name: 'show', exact: true}).click();
    await event(page, 5).getByText('TIMEOUT: no answer').waitFor();
    await event(page, 6).getByText('Rewind to event 4').waitFor();
    await tab.checkAccessibility();
  }
}

export async function the_json_of_an_event_is_exact_searched_and_copied({url, writeUrl, open}) {
  const key = await sample(writeUrl, 'raw');
  const {page} = await open();
  await page.goto(`${url}/${key.path}`);
  await page.getByLabel('Actions of event 3').click();
  await page.getByRole('button', {name: 'Raw JSON'}).click();
  const raw = page.getByRole('region', {name: 'Raw JSON of event 3'});
  await raw.getByLabel('Search the JSON').fill('1234567890123456');
  await raw.getByText('12345678901234567890').waitFor();
  assert.equal(await raw.getByText('B-117').count(), 0);
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await raw.getByRole('button', {name: /Copy .the path .stateDelta.set.price/}).click();
  await until('the path', async () => (await copied()) === '.stateDelta.set.price');
  await raw.getByRole('button', {name: /Copy .the value of .stateDelta.set.price/}).click();
  await until('the value', async () => (await copied()) === '12345678901234567890');
  await raw.getByRole('button', {name: /Copy .the event as JSON/}).click();
  await until('the event', async () => (await copied()).includes('"eventId": "e3"'));
}

export async function state_is_shown_as_of_each_event({url, writeUrl, open}) {
  const key = await sample(writeUrl, 'time');
  const tab = await open();
  const {page} = tab;
  await page.goto(`${url}/${key.path}?at=2`);
  await page.getByRole('heading', {name: 'State as of event 2'}).waitFor();
  const scope = name => page.getByRole('region', {name: `State of the ${name}`});
  await scope('session').getByText('shoes').waitFor();
  await scope('session').getByText('none').waitFor();
  await scope('user').getByText('42').waitFor();
  await scope('application').getByText('EUR').waitFor();
  const slider = page.getByRole('slider', {name: 'State as of event'});
  assert.equal(await slider.getAttribute('aria-valuetext'), 'event 2 of 7');
  await slider.press('ArrowRight');
  await slider.press('ArrowRight');
  await page.getByRole('heading', {name: 'State as of event 4'}).waitFor();
  await scope('user').getByText('43').waitFor();
  await until('the address', () => page.url().includes('at=4'));
  await page.getByLabel('compared with event').fill('1');
  await page.getByLabel('compared with event').press('Enter');
  await scope('session').getByText('12345678901234567890').waitFor();
  await page.getByLabel('only changes').check();
  await until(
    'only changes',
    async () => (await scope('application').getByText('EUR').count()) === 0,
  );
  await page.getByRole('button', {name: 'Now'}).click();
  await page.getByRole('heading', {name: 'State now'}).waitFor();

  await page.getByRole('button', {name: 'user:size'}).first().click();
  const history = page.getByRole('region', {name: 'History of a key'});
  await history.getByText('version').first().waitFor();
  await history.getByRole('link', {name: `${key.sessionId} #4`}).waitFor();
  await history.getByText('42').first().waitFor();
  await tab.checkAccessibility();
  await page.goBack();
  await page.getByRole('heading', {name: 'State now'}).waitFor();
}

export async function events_are_found_and_have_links({url, writeUrl, open}) {
  const key = await sample(writeUrl, 'found');
  await fetch(`${writeUrl}/sessiond.v1.EventService/AppendEvent`, {
    method: 'POST',
    headers: {'content-type': 'application/json', traceparent: `00-${TRACE}-00f067aa0ba902b7-01`},
    body: JSON.stringify({
      key: {...key, path: undefined},
      event: {eventId: 'traced', author: 'agent'},
    }),
  });
  const {page} = await open();
  await page.goto(`${url}/${key.path}`);
  const results = page.getByRole('region', {name: 'Search results'});
  const field = page.getByLabel('Find in this session');
  for (const [said, count, place] of [
    ['boot', 1, 'body'],
    ['e4', 1, 'event id'],
    ['#2', 1, 'sequence'],
    ['turn-1', 4, 'invocation'],
    [TRACE, 1, 'trace'],
  ]) {
    await event(page, 1).waitFor();
    await page.keyboard.press('/');
    await field.fill(said);
    await field.press('Enter');
    await results.getByText(`${count} event${count > 1 ? 's' : ''} with`).waitFor();
    await results.getByText(place).first().waitFor();
  }
  await page.goto(`${url}/#/`);
  await page.goto(`${url}/${key.path}?find=turn-1`);
  await results.getByText('4 events with').waitFor();
  await results.getByRole('link', {name: /^2/}).click();
  await page.getByRole('heading', {name: 'State as of event 2'}).waitFor();
  await page.goto(`${url}/#/`);
  await page.goto(`${url}/${key.path}?event=e3`);
  await page.getByRole('heading', {name: 'State as of event 3'}).waitFor();
  await until('the address', () => page.url().endsWith('?at=3'));
}

export async function a_hundred_thousand_events_are_paged({url, writeUrl, open, scale}) {
  const count = Math.ceil(100 / scale) * 1000;
  const key = {appName: 'long', userId: 'u', sessionId: 'long'};
  await call(writeUrl, 'SessionService/CreateSession', {...key, allowExisting: true});
  for (let first = 1; first <= count; first += 1000) {
    const events = Array.from({length: 1000}, (_, at) => ({
      eventId: `e${first + at}`,
      author: at % 2 ? 'agent' : 'user',
      bodyJson: JSON.stringify(text(`message ${first + at} `.repeat(1 + (at % 9)))),
    }));
    await call(writeUrl, 'EventService/AppendEvents', {key, events});
  }
  const {page} = await open();
  let reads = 0;
  page.on('request', request => (reads += request.url().endsWith('/ListEvents') ? 1 : 0));
  await page.goto(`${url}/#/session/long/u/long`);
  await event(page, count).waitFor();
  assert.ok(reads <= 5, `${reads} pages at first`);
  const nodes = () => page.evaluate(() => document.querySelectorAll('*').length);
  for (const part of [0.1, 0.5, 0.9, 0]) {
    await page.locator('.events-pane .list').evaluate((list, part) => {
      list.scrollTop = part * list.scrollHeight;
    }, part);
    await until('the events there', async () => {
      const names = await page.getByRole('article').evaluateAll(all => all.map(it => it.ariaLabel));
      return names.length > 0 && names.every(name => !name.includes('loading'));
    });
    assert.ok((await nodes()) < 1500, `${await nodes()} nodes`);
  }
  await event(page, 1).waitFor();
  await page.goto(`${url}/#/`);
  const middle = Math.floor(count / 2);
  await page.goto(`${url}/#/session/long/u/long?at=${middle}`);
  await event(page, middle).getByText(`message ${middle}`).waitFor();
}

export async function the_keyboard_is_enough({url, writeUrl, open}) {
  const key = await sample(writeUrl, 'keys');
  const {page} = await open();
  await page.goto(`${url}/${key.path}`);
  await event(page, 1).getByText('Shoes, please.').waitFor();
  await event(page, 1).focus();
  const focused = () => page.evaluate(() => document.activeElement?.ariaLabel ?? '');
  await page.keyboard.press('j');
  await until('the next event', async () => (await focused()).startsWith('Event 2,'));
  await page.keyboard.press('ArrowDown');
  await until('the next event', async () => (await focused()).startsWith('Event 3,'));
  await page.keyboard.press('k');
  await until('the event before', async () => (await focused()).startsWith('Event 2,'));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', {name: 'State as of event 2'}).waitFor();
  await page.keyboard.press('End');
  await until('the last event', async () => (await focused()).startsWith('Event 7,'));
}

export async function a_narrow_window_has_one_pane({url, writeUrl, open}) {
  const key = await sample(writeUrl, 'narrow');
  const tab = await open({viewport: {width: 400, height: 700}});
  const {page} = tab;
  await page.goto(`${url}/${key.path}`);
  await event(page, 1).waitFor();
  await page.getByRole('button', {name: 'state', exact: true}).click();
  await page.getByRole('heading', {name: 'State now'}).waitFor();
  assert.equal(await event(page, 1).isVisible(), false);
  await page.getByRole('button', {name: 'events', exact: true}).click();
  await event(page, 1).waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 400, `the page is ${width} wide`);
  await tab.checkAccessibility();
}
