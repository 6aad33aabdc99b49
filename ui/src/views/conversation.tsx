/** The events of a session, in a list that follows what is appended. */

import {useSignal} from '@preact/signals';
import {useLayoutEffect, useRef} from 'preact/hooks';
import type {SessionModel} from '../session.js';
import {Empty, Notice} from './common.js';
import {EventView, Hidden, type Actions} from './event.js';
import {List, type ListModel} from './list.js';

interface Props {
    model: SessionModel;
    list: ListModel;
    actions: Actions;
    at: number | undefined;
    showRewound: () => void;
}

export function Conversation({model, list, actions, at, showRewound}: Props) {
    const {log} = model;
    const count = model.shown.value;
    const runs = log.runs.value;
    const [first, last] = list.range.value;
    const keys = useKeys(list, actions);
    void log.version.value;
    useLayoutEffect(() => log.see(first + 1, last + 1), [first, last, count, log.version.value]);
    useLayoutEffect(() => fold(model, list), [runs, count, log.showsRewound]);
    if (count === 0) {
        return (
            <Empty title="No events yet">
                <p>Events show here when they are appended.</p>
            </Empty>
        );
    }
    const row = (at0: number) => {
        const sequence = at0 + 1;
        const run = log.runOf(sequence);
        const event = log.get(sequence);
        if (run) {
            return <Hidden run={run} show={showRewound} />;
        }
        if (!event) {
            return (
                <article class="event loading" aria-label={`Event ${sequence}, loading`}>
                    <span class="sequence">{sequence}</span>
                </article>
            );
        }
        const isFocused = at0 === keys.focused;
        return <EventView {...{model, event, actions, isFocused}} isSelected={sequence === at} />;
    };
    return (
        <>
            {log.error.value && (
                <Notice>
                    {log.error.value}{' '}
                    <button class="link" onClick={() => log.see(first + 1, last + 1)}>
                        Retry
                    </button>
                </Notice>
            )}
            <List {...{list, count, row}} role="feed" label="Events" onKeyDown={keys.press} />
        </>
    );
}

/** Gives hidden events no height, but for the last one of a run: it says that they are hidden. */
function fold({log, shown}: SessionModel, list: ListModel): void {
    list.resize(shown.value);
    const {heights} = list;
    let isMoved = false;
    for (let row = 0; row < heights.count; row += 1) {
        const run = log.runs.value.length > 0 ? log.runOf(row + 1) : undefined;
        const isHidden = run !== undefined && row + 1 < run.last;
        if (isHidden !== (heights.height(row) === 0)) {
            isMoved = heights.set(row, isHidden ? 0 : heights.estimate) || isMoved;
        }
    }
    if (isMoved) {
        list.layout.value += 1;
    }
}

/** Moves the focus from event to event: arrows, or j and k; Home and End. Enter selects. */
function useKeys(list: ListModel, actions: Actions) {
    const focused = useSignal(-1);
    const isWanted = useRef(false);
    const {heights} = list;
    const [first, last] = list.range.value;
    useLayoutEffect(() => {
        const row = document.querySelector<HTMLElement>(`[data-row="${focused.value}"] > article`);
        if (isWanted.current && row) {
            isWanted.current = false;
            row.focus();
        }
    });
    const focus = (row: number) => {
        isWanted.current = true;
        focused.value = row;
        if (row < list.range.value[0] || row > list.range.value[1]) {
            list.show(row);
        }
    };
    const step = (from: number, by: number) => {
        let row = from + by;
        while (row > 0 && row < heights.count - 1 && heights.height(row) === 0) {
            row += by;
        }
        focus(Math.max(0, Math.min(row, heights.count - 1)));
    };
    const press = (event: KeyboardEvent) => {
        const article = (event.target as HTMLElement).closest('article');
        const row = Number(article?.parentElement?.dataset['row'] ?? -1);
        const isText = (event.target as HTMLElement).closest('input, textarea');
        const moves: Record<string, () => void> = {
            ...{ArrowDown: () => step(row, 1), j: () => step(row, 1)},
            ...{ArrowUp: () => step(row, -1), k: () => step(row, -1)},
            ...{Home: () => focus(0), End: () => focus(heights.count - 1)},
            ...(event.target === article && {Enter: () => actions.select(row + 1)}),
        };
        const move =
            event.ctrlKey || event.metaKey || event.altKey || isText ? undefined : moves[event.key];
        if (move) {
            event.preventDefault();
            move();
        }
    };
    // Tab reaches the list at an event that is in the page.
    const isInPage = first <= focused.value && focused.value <= last;
    return {press, focused: isInPage ? focused.value : Math.min(list.anchor.row, last)};
}
