/** The server in a corner: its condition and, with the right `admin`, what it says of itself. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {ApiError, call} from '../api.js';
import {plain} from '../text.js';

const OPEN_MS = 2_000;
const CLOSED_MS = 20_000;

/** Errors that stay the same for a caller. */
const REFUSALS = ['permission_denied', 'unimplemented'];

type Info = Record<string, unknown>;

export function ServerCorner() {
  const isOpen = useSignal(false);
  const isUp = useSignal<boolean | undefined>(undefined);
  const info = useSignal<Info>({});
  const isRefused = useSignal(false);
  useSignalEffect(() => {
    const period = isOpen.value ? OPEN_MS : CLOSED_MS;
    const read = async () => {
      isUp.value = await fetch('/healthz', {cache: 'no-store'}).then(
        response => response.ok,
        () => false,
      );
      const refused = (error: unknown) => {
        isRefused.value = error instanceof ApiError && REFUSALS.includes(error.code);
        return {};
      };
      if (isUp.value && isOpen.value && !isRefused.peek()) {
        info.value = await call('AdminService/GetServerInfo', {}).catch(refused);
      }
    };
    void read();
    const timer = setInterval(() => void read(), period);
    return () => clearInterval(timer);
  });
  const state = isUp.value === undefined ? 'unknown' : isUp.value ? 'serving' : 'not serving';
  const toggle = (event: {currentTarget: HTMLDetailsElement}) =>
    (isOpen.value = event.currentTarget.open);
  return (
    <details class="server" onToggle={toggle}>
      <summary>
        <span class={`dot ${state.replace(' ', '-')}`} /> {state}
      </summary>
      <dl>
        {Object.entries({condition: state, ...info.value}).map(([name, value]) => [
          <dt key={name}>{wordsOf(name)}</dt>,
          <dd>{plain(typeof value === 'string' ? value : JSON.stringify(value))}</dd>,
        ])}
      </dl>
    </details>
  );
}

/** `appendsPerSecond` in words. */
function wordsOf(name: string): string {
  return name.replace(/[A-Z]/g, letter => ` ${letter.toLowerCase()}`);
}
