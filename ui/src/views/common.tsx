/** Small parts of every view. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useEffect} from 'preact/hooks';
import {isAbort, messageOf} from '../api.js';
import {agoText, countText, cut, pieces, plain, timeText} from '../text.js';

const SHORT = 700;
const SHORT_LINES = 14;
const MORE = 20_000;
/** An id has at most 512 bytes. */
const MAX_LABEL = 520;

/** Text of strangers: isolated, and with visible control characters. */
export function shown(text = '', limit = MAX_LABEL) {
  const parts = pieces(cut(text, limit)).map(piece =>
    piece.isControl ? <span class="control">{piece.text}</span> : piece.text,
  );
  return <bdi>{parts}</bdi>;
}

export function tag(text: string) {
  return <span class="tag">{shown(text, 160)}</span>;
}

/** A text of any length, cut until more is asked for. */
export function LongText({text, class: name = ''}: {text: string; class?: string}) {
  const limit = useSignal(SHORT);
  const lines = text.slice(0, SHORT).split('\n').slice(0, SHORT_LINES);
  const end = limit.value === SHORT ? Math.min(SHORT, lines.join('\n').length) : limit.value;
  const rest = text.length - end;
  const more = () => (limit.value = end + MORE);
  return (
    <span class={`long ${name}`}>
      {shown(text, end)}
      {rest > 0 && <Link label={`more (${countText(rest, 'character')})`} run={more} />}
      {limit.value > SHORT && <Link label="less" run={() => (limit.value = SHORT)} />}
    </span>
  );
}

interface ButtonProps {
  label: ComponentChildren;
  run: () => unknown;
  class?: string;
  title?: string;
  pressed?: boolean;
}

export function Button({label, run, title, pressed, class: name}: ButtonProps) {
  const its = {class: name, 'aria-label': title, 'aria-pressed': pressed};
  return <button {...{type: 'button', ...its, onClick: () => void run()}}>{label}</button>;
}

/** A button that looks like a link. */
export function Link({label, run}: ButtonProps) {
  return <Button class="link" {...{label, run}} />;
}

/** A time, with how long ago it was. */
export function timeAgo(time: string | undefined) {
  const ago = <span class="dim">{agoText(time, Date.now())}</span>;
  return <time dateTime={time}>{[`${timeText(time)} `, ago]}</time>;
}

interface NoticeProps {
  text: string | false | undefined;
  kind?: 'error' | 'warning' | 'info';
  retry?: () => void;
}

/** Nothing, if there is nothing to say. */
export function Notice({text, kind = 'error', retry}: NoticeProps) {
  return text ? (
    <p class={`notice ${kind}`} role={kind === 'error' ? 'alert' : 'status'}>
      {shown(text, 2000)} {retry && <Link label="Retry now" run={retry} />}
    </p>
  ) : null;
}

export function Empty({title, children}: {title: string; children?: ComponentChildren}) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{children}</p>
    </div>
  );
}

interface FieldProps {
  label: string;
  set: (text: string) => void;
}

export function Filter({label, set}: FieldProps) {
  const input = (event: {currentTarget: HTMLInputElement}) => set(event.currentTarget.value);
  return <input type="search" placeholder={label} aria-label={label} onInput={input} />;
}

export function Field({label, set}: FieldProps) {
  return (
    <label class="field">
      {label}
      <input autocomplete="off" onInput={event => set(event.currentTarget.value)} />
    </label>
  );
}

type CheckProps = {label: string; value: boolean; set: (on: boolean) => void};

export function Check({label, value, set}: CheckProps) {
  const change = (event: {currentTarget: HTMLInputElement}) => set(event.currentTarget.checked);
  return (
    <label>{[<input type="checkbox" checked={value} onChange={change} />, ` ${label}`]}</label>
  );
}

/** Reads something at first and when `changes` do, after `restMs` without a change. */
export function useRead<T>(
  read: (abort: AbortSignal) => Promise<T>,
  changes: unknown[],
  restMs = 0,
) {
  const value = useSignal<T | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  const again = useSignal(0);
  useEffect(() => {
    const abort = new AbortController();
    const run = async () => {
      try {
        value.value = await read(abort.signal);
        error.value = undefined;
      } catch (failure) {
        error.value = isAbort(failure) ? error.value : failure;
      }
    };
    const timer = setTimeout(() => void run(), restMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [...changes, again.value]);
  const message = error.value === undefined ? '' : messageOf(error.value);
  return {value: value.value, error: error.value, message, again: () => (again.value += 1)};
}

/** Returns what came of it. Browsers have no clipboard for pages of other hosts without TLS. */
export async function copy(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return 'copied';
  } catch {
    return 'not allowed';
  }
}

/** Copies a text, which is made when it is asked for. `label` says what, for screen readers. */
export function Copy({text, label, name}: {text: () => string; label: string; name: string}) {
  const done = useSignal('');
  const run = async () => (done.value = await copy(text()));
  const title = `Copy ${plain(label)}`;
  return <Button class="copy" label={done.value || name} {...{run, title}} />;
}

/** The menu of a thing: names and what they do. Those that do nothing are left out. */
export function Menu({label, items}: {label: string; items: [string, unknown][]}) {
  const leave = ({currentTarget, relatedTarget}: FocusEvent) => {
    const menu = currentTarget as HTMLDetailsElement;
    menu.open &&= menu.contains(relatedTarget as Node | null);
  };
  const close = ({currentTarget}: Event) => {
    (currentTarget as HTMLElement).closest('details')?.removeAttribute('open');
  };
  const show = ({currentTarget}: Event) => {
    (currentTarget as HTMLElement).lastElementChild?.scrollIntoView({block: 'nearest'});
  };
  const press = (event: KeyboardEvent) => event.key === 'Escape' && close(event);
  const offered = items.filter((item): item is [string, () => unknown] => Boolean(item[1]));
  return (
    <details class="menu" onFocusOut={leave} onKeyDown={press} onToggle={show}>
      <summary aria-label={label}>⋯</summary>
      <div class="menu-items" onClick={close}>
        {offered.map(([name, run]) => (
          <Button key={name} label={name} run={run} />
        ))}
      </div>
    </details>
  );
}
