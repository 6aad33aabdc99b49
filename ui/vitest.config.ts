import {defineConfig} from 'vitest/config';

export default defineConfig({
  test: {
    include: ['tests/unit/*_test.ts'],
    setupFiles: ['tests/unit/globals.ts'],
    testTimeout: 60_000,
  },
});
