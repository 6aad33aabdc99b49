/** Small parts of every view. */

import {useSignal, type Signal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useEffect, useId} from 'preact/hooks';
import {attempt} from '../api.js';
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
  const lines = text.slice(0, SHORT).split('\n').slice(0, SHORT_LINES);
  const short = Math.min(SHORT, lines.join('\n').length);
  const end = useSignal(short);
  const rest = text.length - end.value;
  return (
    <span class={`long ${name}`}>
      {shown(text, end.value)}
      {rest > 0 && (
        <Link label={`more (${countText(rest, 'character')})`} run={() => (end.value += MORE)} />
      )}
      {end.value > short && <Link label="less" run={() => (end.value = short)} />}
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

export function Link({label, run}: ButtonProps) {
  return <Button class="link" {...{label, run}} />;
}

export function timeAgo(time: string | undefined) {
  const ago = <span class="dim">{agoText(time, Date.now())}</span>;
  return <time dateTime={time}>{[`${timeText(time)} `, ago]}</time>;
}

interface NoticeProps {
  text: string | false | undefined;
  kind?: 'error' | 'warning' | 'info';
  retry?: (() => void) | undefined;
}

/** A message, or nothing if there is no text. */
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

type FieldProps = {label: string; set: (text: string) => void};
type Input = {currentTarget: HTMLInputElement};

/** With `value`, the text is read when it is complete; without, at each key. */
export function Filter({label, set, value}: FieldProps & {value?: string}) {
  const read = ({currentTarget}: Input) => set(currentTarget.value);
  const its = {type: 'search', placeholder: label, 'aria-label': label, value} as const;
  return <input {...{...its, [value === undefined ? 'onInput' : 'onChange']: read}} />;
}

/** `value` is what it has at first. */
export function Field({
  label,
  set,
  isSecret,
  value,
}: FieldProps & {isSecret?: boolean; value?: string}) {
  const its = {type: isSecret ? 'password' : 'text', autocomplete: 'off', defaultValue: value} as {
    type: 'text';
  };
  return (
    <label class="field">
      {label}
      <input {...its} onInput={({currentTarget}) => set(currentTarget.value)} />
    </label>
  );
}

/** A box that sets a signal. */
export function checked(on: Signal<boolean>) {
  return {value: on.value, set: (is: boolean) => (on.value = is)};
}

type CheckProps = {label: string; value: boolean; set: (on: boolean) => unknown};

export function Check({label, value, set}: CheckProps) {
  const change = ({currentTarget}: Input) => set(currentTarget.checked);
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
  const error = useSignal('');
  const again = useSignal(0);
  useEffect(() => {
    const abort = new AbortController();
    const run = async () => {
      const found = await read(abort.signal);
      abort.signal.throwIfAborted();
      value.value = found;
    };
    const timer = setTimeout(() => void attempt(error, run), restMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [...changes, again.value]);
  return {value: value.value, message: error.value, again: () => (again.value += 1)};
}

/** Reads the first pages of a list, and offers the next one. */
export function usePages<T extends {nextPageToken?: string}>(
  list: (abort: AbortSignal) => AsyncGenerator<T>,
  changes: unknown[] = [],
) {
  const count = useSignal(1);
  const read = async (abort: AbortSignal) => {
    const pages: T[] = [];
    for await (const page of list(abort)) {
      if (pages.push(page) === count.value) {
        break;
      }
    }
    return pages;
  };
  const state = useRead(read, [...changes, count.value]);
  const hasMore = state.value?.at(-1)?.nextPageToken;
  return {...state, more: hasMore && <Button label="More" run={() => (count.value += 1)} />};
}

/** The first ones of many, and a link to more of them. */
export function useSome<T>(all: T[], step: number) {
  const limit = useSignal(step);
  const rest = all.length - limit.value;
  const more = rest > 0 && <Link label={`${rest} more`} run={() => (limit.value += step)} />;
  return [all.slice(0, limit.value), more] as const;
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
  return (
    <Button class="copy" label={done.value || name} title={`Copy ${plain(label)}`} run={run} />
  );
}

/** The menu of a thing: names and what they do. Those that do nothing are left out. */
export function Menu({label, items}: {label: string; items: [string, unknown][]}) {
  const id = useId();
  const opener = {type: 'button', class: 'menu', 'aria-label': label, popovertarget: id} as const;
  const menu = {id, class: 'menu-items', popover: 'auto'} as const;
  const offered = items.filter((item): item is [string, () => unknown] => Boolean(item[1]));
  return (
    <>
      <button {...opener}>⋯</button>
      <div {...menu} onClick={({currentTarget}) => currentTarget.hidePopover()}>
        {offered.map(([name, run]) => (
          <Button key={name} label={name} run={run} />
        ))}
      </div>
    </>
  );
}
