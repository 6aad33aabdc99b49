import {defineConfig} from 'vitest/config';

export default defineConfig({test: {include: ['tests/unit/*_test.ts'], testTimeout: 60_000}});
