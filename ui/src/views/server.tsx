/** The server: its condition in a corner, and the credential that it wants. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {ApiError, call, needsToken, setToken, token} from '../api.js';
import {plain} from '../text.js';
import {Field, Notice} from './common.js';

const OPEN_MS = 2_000;
const CLOSED_MS = 20_000;
/** Errors that stay the same for a caller. */
const REFUSALS = ['permission_denied', 'unimplemented'];

/** With the right `admin`, also what the server says of itself. */
export function ServerCorner() {
  const isOpen = useSignal(false);
  const isUp = useSignal<boolean | undefined>(undefined);
  const info = useSignal<Record<string, unknown> | undefined>(undefined);
  /** The server is not asked again. */
  const isRefused = useSignal(false);
  useSignalEffect(() => {
    const read = async () => {
      const health = fetch('/healthz', {cache: 'no-store'});
      isUp.value = (await health.catch(() => undefined))?.ok ?? false;
      const refuse = (error: unknown) => {
        isRefused.value = error instanceof ApiError && REFUSALS.includes(error.code);
        return {};
      };
      if (isUp.value && isOpen.value && !isRefused.peek()) {
        info.value = await call('AdminService/GetServerInfo', {}).catch(refuse);
      }
    };
    void read();
    const timer = setInterval(() => void read(), isOpen.value ? OPEN_MS : CLOSED_MS);
    return () => clearInterval(timer);
  });
  const condition = isUp.value === undefined ? 'unknown' : isUp.value ? 'serving' : 'not serving';
  // All of it shows at once.
  const isAwaited = isUp.value && !info.value;
  return (
    <details class="server" onToggle={({currentTarget: {open}}) => (isOpen.value = open)}>
      <summary>
        <span class={`dot ${condition.replace(' ', '-')}`} /> {condition}
      </summary>
      <dl>
        {Object.entries(isAwaited ? {} : {condition, ...info.value}).map(([name, value]) => [
          // `appendsPerSecond` in words.
          <dt key={name}>{name.replace(/[A-Z]/g, letter => ` ${letter.toLowerCase()}`)}</dt>,
          <dd>{plain(typeof value === 'string' ? value : JSON.stringify(value))}</dd>,
        ])}
      </dl>
    </details>
  );
}

export function TokenForm() {
  const given = useSignal('');
  const submit = (event: Event) => {
    event.preventDefault();
    setToken(given.value);
  };
  return (
    <form class="page open-form" onSubmit={submit}>
      <h1>Sign in</h1>
      <Notice text={token.value && 'The server refused the token. It may be wrong or expired.'} />
      <p>{token.value ? 'Give another one.' : 'This server asks for a token.'}</p>
      <Field label="Token" isSecret set={text => (given.value = text)} />
      <button class="primary">Use the token</button>
      <p class="dim">This tab keeps it until the tab is closed.</p>
    </form>
  );
}

export function signOut(): void {
  setToken('');
  needsToken.value = true;
}
