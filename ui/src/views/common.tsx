/** Small parts of every view. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useEffect, useRef} from 'preact/hooks';
import {isAbort, messageOf} from '../api.js';
import {agoText, countText, cut, pieces, plain, timeText} from '../text.js';

const SHORT = 700;
const SHORT_LINES = 14;
const MORE = 20_000;
/** An id has at most 512 bytes. */
const MAX_LABEL = 520;

/** Text of strangers: isolated, and with visible control characters. */
export function Text({text, limit = MAX_LABEL}: {text: string; limit?: number}) {
  return (
    <bdi>
      {pieces(cut(text, limit)).map(piece =>
        piece.isControl ? <span class="control">{piece.text}</span> : piece.text,
      )}
    </bdi>
  );
}

/** A text of any length, cut until more is asked for. */
export function LongText({text, class: name = ''}: {text: string; class?: string}) {
  const limit = useSignal(SHORT);
  const lines = text.slice(0, SHORT).split('\n').slice(0, SHORT_LINES);
  const shown = limit.value === SHORT ? Math.min(SHORT, lines.join('\n').length) : limit.value;
  const rest = text.length - shown;
  return (
    <span class={`long ${name}`}>
      <Text text={text} limit={shown} />
      {rest > 0 && (
        <Link run={() => (limit.value = shown + MORE)}>more ({countText(rest, 'character')})</Link>
      )}
      {limit.value > SHORT && <Link run={() => (limit.value = SHORT)}>less</Link>}
    </span>
  );
}

/** A button that looks like a link. */
export function Link({run, children}: {run: () => void; children: ComponentChildren}) {
  return (
    <button type="button" class="link" onClick={run}>
      {children}
    </button>
  );
}

/** A time, with how long ago it was. */
export function Time({time}: {time: string | undefined}) {
  return time ? (
    <time dateTime={time} title={time}>
      {timeText(time)} <span class="dim">{agoText(time, Date.now())}</span>
    </time>
  ) : null;
}

interface NoticeProps {
  kind?: 'error' | 'warning' | 'info';
  retry?: () => void;
  children: ComponentChildren;
}

/** Nothing, if there is nothing to say. */
export function Notice({kind = 'error', retry, children}: NoticeProps) {
  return [children].flat().some(Boolean) ? (
    <p class={`notice ${kind}`} role={kind === 'error' ? 'alert' : 'status'}>
      {children} {retry && <Link run={retry}>Retry now</Link>}
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
  value?: string;
  set: (text: string) => void;
}

export function Filter({label, set}: FieldProps) {
  const input = (event: {currentTarget: HTMLInputElement}) => set(event.currentTarget.value);
  return <input type="search" placeholder={label} aria-label={label} onInput={input} />;
}

export function Field({label, value, set}: FieldProps) {
  return (
    <label class="field">
      {label}
      <input
        autocomplete="off"
        {...(value !== undefined && {value})}
        onInput={event => set(event.currentTarget.value)}
      />
    </label>
  );
}

export function Check({
  label,
  value,
  set,
}: {
  label: string;
  value: boolean;
  set: (on: boolean) => void;
}) {
  return (
    <label>
      <input type="checkbox" checked={value} onChange={event => set(event.currentTarget.checked)} />{' '}
      {label}
    </label>
  );
}

/** Reads something when it is first shown and when `changes` do, after `restMs` without a change. */
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
  return {value, error: error.value, message, again: () => (again.value += 1)};
}

/** Copies to the clipboard, also on pages without TLS. */
export async function copy(text: string): Promise<void> {
  if (isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

interface CopyProps {
  /** Made only when it is asked for. */
  text: () => string;
  /** What it copies, for screen readers. */
  label: string;
  children: ComponentChildren;
}

export function Copy({text, label, children}: CopyProps) {
  const done = useSignal('');
  const run = () =>
    copy(text()).then(
      () => (done.value = 'copied'),
      () => (done.value = 'not allowed'),
    );
  return (
    <button class="copy" aria-label={`Copy ${plain(label)}`} onClick={() => void run()}>
      {done.value || children}
    </button>
  );
}

/** The menu of a thing: names and what they do. Those that do nothing are left out. */
export function Menu({label, items}: {label: string; items: [string, unknown][]}) {
  const element = useRef<HTMLDetailsElement>(null);
  const close = () => element.current?.removeAttribute('open');
  const leave = (event: FocusEvent) => {
    if (!element.current?.contains(event.relatedTarget as Node | null)) {
      close();
    }
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      close();
      element.current?.querySelector('summary')?.focus();
    }
  };
  return (
    <details class="menu" ref={element} onFocusOut={leave} onKeyDown={press}>
      <summary aria-label={label} title={label}>
        ⋯
      </summary>
      <div class="menu-items" onClick={close}>
        {items.map(
          ([name, run]) =>
            typeof run === 'function' && (
              <button key={name} onClick={() => void (run as () => unknown)()}>
                {name}
              </button>
            ),
        )}
      </div>
    </details>
  );
}
