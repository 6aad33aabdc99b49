/** Small parts of every view. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useEffect, useRef} from 'preact/hooks';
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
                piece.code === undefined ? piece.text : <span class="control">{piece.text}</span>,
            )}
        </bdi>
    );
}

/** A text of any length, cut until more is asked for. */
export function LongText({text, class: name = ''}: {text: string; class?: string}) {
    const limit = useSignal(SHORT);
    const lines = text.slice(0, limit.value).split('\n', SHORT_LINES + 1);
    const isTall = limit.value === SHORT && lines.length > SHORT_LINES;
    const shown = isTall ? lines.slice(0, SHORT_LINES).join('\n').length : limit.value;
    const rest = text.length - shown;
    return (
        <span class={`long ${name}`}>
            <Text text={text} limit={shown} />
            {rest > 0 && (
                <button class="link more" onClick={() => (limit.value = shown + MORE)}>
                    more ({countText(rest, 'character')})
                </button>
            )}
            {limit.value > SHORT && (
                <button class="link more" onClick={() => (limit.value = SHORT)}>
                    less
                </button>
            )}
        </span>
    );
}

/** A time, with how long ago it was. */
export function Time({time, now = Date.now()}: {time: string | undefined; now?: number}) {
    return time ? (
        <time dateTime={time} title={time}>
            {timeText(time)} <span class="dim">{agoText(time, now)}</span>
        </time>
    ) : null;
}

export function Notice({kind = 'error', children}: {kind?: string; children: ComponentChildren}) {
    return (
        <p class={`notice ${kind}`} role={kind === 'error' ? 'alert' : 'status'}>
            {children}
        </p>
    );
}

export function Empty({title, children}: {title: string; children?: ComponentChildren}) {
    return (
        <div class="empty">
            <h2>{title}</h2>
            {children}
        </div>
    );
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

interface DialogProps {
    title: string;
    close: () => void;
    children: ComponentChildren;
}

/** A modal dialog. The browser keeps the focus in it, and Escape closes it. */
export function Dialog({title, close, children}: DialogProps) {
    const element = useRef<HTMLDialogElement>(null);
    useEffect(() => element.current?.showModal(), []);
    return (
        <dialog ref={element} onClose={close} aria-labelledby="dialog-title">
            <h2 id="dialog-title">{title}</h2>
            {children}
        </dialog>
    );
}

/** The menu of a thing: it opens at a button. */
export function Menu({label, children}: {label: string; children: ComponentChildren}) {
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
                {children}
            </div>
        </details>
    );
}
