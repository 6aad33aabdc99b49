import js from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  {ignores: ['dist/', 'build/', 'node_modules/', 'src/gen/']},
  js.configs.recommended,
  tseslint.configs.recommended,
  {
    files: ['**/*.mjs', '**/*.js'],
    languageOptions: {globals: {process: 'readonly', console: 'readonly'}},
  },
  {
    files: ['**/*.ts'],
    languageOptions: {parserOptions: {projectService: true}},
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'off',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': [
        'error',
        {varsIgnorePattern: '^_$'},
      ],
    },
  },
  {
    // Tests know that what they have made exists.
    files: ['tests/**', 'examples/**'],
    rules: {'@typescript-eslint/no-non-null-assertion': 'off'},
  },
);
