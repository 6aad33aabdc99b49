// Builds dist/ (ES modules with types, their CommonJS twin, and the bin) and build/ (examples and benchmarks). `npm run build`.

import {execFileSync} from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');

function tscRun(...args) {
  execFileSync(process.execPath, [tsc, ...args], {
    cwd: here,
    stdio: 'inherit',
  });
}

/** Compiles src/ with the options of tsconfig.build.json and these. */
function compile(...options) {
  tscRun('--project', 'tsconfig.build.json', ...options);
}

for (const made of ['dist', 'build']) {
  rmSync(join(here, made), {recursive: true, force: true});
}
compile();
// Node reads the files below as CommonJS because of the package.json beside them.
mkdirSync(join(here, 'dist/cjs'), {recursive: true});
writeFileSync(join(here, 'dist/cjs/package.json'), '{"type": "commonjs"}\n');
compile(
  ...['--outDir', 'dist/cjs', '--module', 'commonjs'],
  ...['--moduleResolution', 'node10', '--verbatimModuleSyntax', 'false'],
);
// The bin, the examples and the benchmarks import the package by its name.
tscRun('--project', 'tsconfig.programs.json');
mkdirSync(join(here, 'dist/bin'));
const bin = join(here, 'dist/bin/sessiond_adk_web.js');
copyFileSync(join(here, 'build/src/bin/sessiond_adk_web.js'), bin);
chmodSync(bin, 0o755);
