// Builds dist/: the page, its script and its style, from package-lock.json and the sources alone.

import {build} from 'esbuild';
import {copyFileSync, readFileSync, rmSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

const MAX_COMPRESSED_BYTES = 60_000;

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, 'dist');

rmSync(dist, {recursive: true, force: true});
await build({
  absWorkingDir: here,
  entryPoints: [
    {in: 'src/main.tsx', out: 'app'},
    {in: 'src/app.css', out: 'app'},
  ],
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
});
copyFileSync(join(here, 'src/index.html'), join(dist, 'index.html'));

const sizes = ['index.html', 'app.js', 'app.css'].map(
  name => gzipSync(readFileSync(join(dist, name)), {level: 9}).length,
);
const bytes = sizes.reduce((sum, size) => sum + size, 0);
console.log(`${bytes} bytes compressed`);
if (bytes > MAX_COMPRESSED_BYTES) {
  throw new Error(`The page may have ${MAX_COMPRESSED_BYTES} bytes compressed.`);
}
