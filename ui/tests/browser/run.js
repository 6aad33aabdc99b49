// Runs the tests of the page in a browser: `SESSIOND_BIN=… node tests/browser/run.js [PART OF A NAME]`.
//
// SESSIOND_BIN is the server; each part of the tests starts its own and ends it by its process. CHROMIUM is the browser,
// by default Debian's chromium-headless-shell. INSPECTOR_URL and INSPECTOR_SECOND_URL, if they are set, are two replicas of
// one store: the page is on the first, and the tests write by the second. INSPECTOR_SCALE divides the sizes of large lists.

import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {chromium} from 'playwright-core';
import * as access from './access.js';
import * as content from './content.js';
import * as conversation from './conversation.js';
import * as lists from './lists.js';
import * as live from './live.js';
import * as restart from './restart.js';
import {Server} from './server.js';
import * as writes from './writes.js';

const WAIT_MS = 20_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const ARGUMENTS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];
const executablePath = process.env.CHROMIUM ?? '/usr/lib/chromium/chromium-headless-shell';

/** A page that counts what must not happen. */
class Tab {
  faults = [];
  /** Bodies of all responses, for tests that look for what must not be in them. */
  received = [];

  static async open(browser, options = {}) {
    const tab = new Tab();
    tab.context = await browser.newContext({viewport: {width: 1280, height: 800}, ...options});
    await tab.context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await tab.context.addInitScript(() => {
      addEventListener('securitypolicyviolation', event => {
        console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
      });
    });
    tab.page = await tab.context.newPage();
    tab.page.setDefaultTimeout(WAIT_MS);
    tab.page.on('pageerror', error => tab.faults.push(error.stack));
    tab.page.on('dialog', dialog => tab.faults.push(`dialog: ${dialog.message()}`));
    tab.page.on('console', message => {
      if (['error', 'warning'].includes(message.type())) {
        tab.faults.push(message.text());
      }
    });
    tab.page.on('response', response => {
      void response.body().then(
        body => tab.received.push(body.toString()),
        () => {},
      );
    });
    return tab;
  }

  /** Faults that a test has made on purpose are taken out. */
  expectFaults(pattern) {
    this.faults = this.faults.filter(fault => !pattern.test(fault));
  }

  /** No serious finding of axe. */
  async checkAccessibility() {
    // Over the protocol, so that the page's content security policy stays as it is.
    await this.page.evaluate(AXE);
    const found = await this.page.evaluate(async () => {
      const {violations} = await globalThis.axe.run(document, {resultTypes: ['violations']});
      return violations
        .filter(({impact}) => impact === 'serious' || impact === 'critical')
        .map(
          ({id, nodes}) =>
            `${id}: ${nodes
              .map(node => node.html)
              .slice(0, 3)
              .join(' ')}`,
        );
    });
    assert.deepEqual(found, []);
  }
}

const filter = process.argv[2] ?? '';
const scale = Number(process.env.INSPECTOR_SCALE ?? 1);
const browser = await chromium.launch({executablePath, headless: true, args: ARGUMENTS});
let [passed, failed] = [0, 0];

async function runOne(name, test, context) {
  const started = Date.now();
  const tabs = [];
  const deferred = [];
  const open = async options => {
    const tab = await Tab.open(browser, options);
    tabs.push(tab);
    return tab;
  };
  try {
    await test({...context, open, scale, defer: run => deferred.push(run)});
    for (const tab of tabs) {
      assert.deepEqual(tab.faults, [], 'the browser has reported');
    }
    passed += 1;
    console.log(`ok      ${name} (${Date.now() - started} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
    const shown = await tabs
      .at(-1)
      ?.page.evaluate(() => document.body.innerText)
      .catch(() => '');
    console.log(shown?.slice(0, 1500));
  }
  await Promise.all(tabs.map(tab => tab.context.close()));
  // A server ends after the pages that watch it.
  await Promise.all(deferred.map(run => run()));
}

for (const group of [lists, conversation, content, live, restart, writes, access]) {
  const tests = Object.entries(group).filter(
    ([name, test]) => typeof test === 'function' && name.includes(filter),
  );
  if (tests.length === 0) {
    continue;
  }
  const given = group.needsOwnServer ? undefined : process.env.INSPECTOR_URL;
  const server = given ? undefined : await Server.start();
  const url = given ?? server.url;
  const writeUrl = (given && process.env.INSPECTOR_SECOND_URL) || url;
  for (const [name, test] of tests) {
    await runOne(name, test, {server, url, writeUrl});
  }
  await server?.stop();
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
