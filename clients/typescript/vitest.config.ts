import {defineConfig} from 'vitest/config';

export default defineConfig({
  test: {
    include: ['tests/**/*_test.ts'],
    // ADK takes two seconds to import: once for all files, in one process.
    pool: 'forks',
    poolOptions: {forks: {singleFork: true}},
    isolate: false,
    // Machines may be busy, and no test measures time.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Without it a condition that is polled for has one second.
    expect: {poll: {timeout: 240_000}},
    restoreMocks: true,
    // The environment may have credentials for a sessiond of its own.
    env: {
      SESSIOND_TLS_CA: '',
      SESSIOND_CLIENT_TLS_CERT: '',
      SESSIOND_CLIENT_TLS_KEY: '',
      SESSIOND_TOKEN_FILE: '',
    },
  },
});
