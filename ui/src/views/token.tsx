/** Asks for the credential that the server wants. */

import {useSignal} from '@preact/signals';
import {needsToken, setToken, token} from '../api.js';
import {forgetLists} from '../session_list.js';

export function TokenForm() {
  const given = useSignal('');
  const submit = (event: Event) => {
    event.preventDefault();
    forgetLists();
    setToken(given.value);
  };
  const field = {type: 'password', autocomplete: 'off', required: true} as const;
  const state = token.value
    ? 'The server refused the token. It may have expired.'
    : 'This server asks for a token.';
  return (
    <form class="page open-form" onSubmit={submit}>
      <h1>Sign in</h1>
      <p>{state}</p>
      <label class="field">
        Token
        <input {...field} onInput={input => (given.value = input.currentTarget.value)} />
      </label>
      <button class="primary">Use the token</button>
      <p class="dim">This tab keeps it until the tab is closed.</p>
    </form>
  );
}

export function signOut(): void {
  forgetLists();
  setToken('');
  needsToken.value = true;
}
