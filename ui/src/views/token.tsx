/** Asks for the credential that the server wants. */

import {needsToken, setToken, token} from '../api.js';
import {forgetLists} from '../session_list.js';

export function TokenForm() {
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    forgetLists();
    setToken(String(form.get('token') ?? ''));
  };
  return (
    <div class="page">
      <form class="open-form" onSubmit={submit}>
        <h1>Sign in</h1>
        <p>
          {token.value
            ? 'The server refused the token. It may have expired.'
            : 'This server asks for a token.'}
        </p>
        <label class="field">
          Token
          <input name="token" type="password" autocomplete="off" required />
        </label>
        <button class="primary">Use the token</button>
        <p class="dim">
          It is kept in this tab until the tab is closed. <code>sessiond open</code> opens the page
          with the token of a file.
        </p>
      </form>
    </div>
  );
}

export function signOut(): void {
  forgetLists();
  setToken('');
  needsToken.value = true;
}
