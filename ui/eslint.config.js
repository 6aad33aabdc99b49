import js from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  {ignores: ['build/', 'dist/', 'node_modules/', 'src/gen/']},
  js.configs.recommended,
  tseslint.configs.recommended,
  {
    files: ['**/*.js'],
    languageOptions: {
      globals: {
        ...{Buffer: 'readonly', console: 'readonly', document: 'readonly', fetch: 'readonly'},
        ...{process: 'readonly', setTimeout: 'readonly', window: 'readonly', history: 'readonly'},
        ...{navigator: 'readonly', sessionStorage: 'readonly', addEventListener: 'readonly'},
        getComputedStyle: 'readonly',
      },
    },
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    languageOptions: {parserOptions: {projectService: true}},
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', 60],
      // The page shows text of strangers: none of it may become markup.
      'no-restricted-properties': ['error', {property: 'innerHTML'}, {property: 'outerHTML'}],
      'no-restricted-syntax': [
        'error',
        {selector: 'JSXAttribute[name.name="dangerouslySetInnerHTML"]', message: 'Use text.'},
      ],
    },
  },
  {
    // Tests know that what they have made exists, and a suite is one function.
    files: ['tests/**'],
    rules: {'@typescript-eslint/no-non-null-assertion': 'off', 'max-lines-per-function': 'off'},
  },
);
