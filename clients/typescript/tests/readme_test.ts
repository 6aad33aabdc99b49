/** The README's code compiles, and its tables name what exists. */

import {readFileSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import ts from 'typescript';
import {expect, test} from 'vitest';
import * as sessiond from '../src/index.js';
import {PACKAGE} from './support/program.js';

const README = readFileSync(join(PACKAGE, 'README.md'), 'utf8');

/** What the blocks use and do not declare. */
const PRELUDE = `
import type {Event, LlmAgent, Session} from '@google/adk';
declare const agent: LlmAgent;
declare const service: SessiondSessionService;
declare const session: Session;
declare const event: Event;
`;

test('the code compiles', () => {
  const blocks = [...README.matchAll(/^```ts\n(.*?)^```/gms)].map(
    ([, code]) => code,
  );
  expect(blocks.length).toBeGreaterThan(1);
  // Inside of the package, so that its dependencies are found.
  const file = join(PACKAGE, 'tests/readme.generated.ts');
  writeFileSync(file, [PRELUDE, ...blocks].join('\n'));
  try {
    const read = ts.readConfigFile(
      join(PACKAGE, 'tsconfig.json'),
      ts.sys.readFile,
    );
    const {options} = ts.parseJsonConfigFileContent(
      read.config,
      ts.sys,
      PACKAGE,
    );
    // Examples name results that they do not use.
    const program = ts.createProgram([file], {
      ...options,
      noUnusedLocals: false,
    });
    const found = ts
      .getPreEmitDiagnostics(program)
      .map(({messageText}) =>
        ts.flattenDiagnosticMessageText(messageText, '\n'),
      );
    expect(found).toEqual([]);
  } finally {
    rmSync(file);
  }
});

test('every error and option is described', () => {
  const errors = Object.keys(sessiond).filter(
    name => /^Sessiond\w+Error$/.test(name) && name !== 'SessiondError',
  );
  expect(errors.length).toBeGreaterThan(6);
  for (const name of errors) {
    expect(README).toContain(`\`${name}\``);
  }
  const source =
    readFileSync(join(PACKAGE, 'src/service.ts'), 'utf8') +
    readFileSync(join(PACKAGE, 'src/channel.ts'), 'utf8') +
    readFileSync(join(PACKAGE, 'src/credentials.ts'), 'utf8');
  const options = [...source.matchAll(/^ {2}readonly (\w+)\?:/gm)].map(
    ([, name]) => name,
  );
  expect(options).toContain('timeoutMs');
  expect(options).toContain('tokenFile');
  for (const option of options.filter(name => name !== 'operations')) {
    expect(README).toContain(`\`${option}\``);
  }
});
