/** The events of a session, in a list that follows what is appended. */

import {useSignal} from '@preact/signals';
import {useLayoutEffect, useRef} from 'preact/hooks';
import {List} from '../list.js';
import type {SessionModel} from '../session.js';
import {Empty, Notice} from './common.js';
import {EventView, Hidden} from './event.js';

export function Conversation({model}: {model: SessionModel}) {
  const {log, list} = model;
  const count = model.shown.value;
  const [first, last] = list.range.value;
  const keys = useKeys(model);
  const see = () => log.see(first + 1, last + 1);
  useLayoutEffect(see, [first, last, count, log.version.value]);
  useLayoutEffect(() => {
    // Only the last one of a run is seen. It says that they are hidden.
    list.fold(row => row + 1 < (log.runOf(row + 1)?.last ?? 0));
  }, [log.runs.value]);
  if (count === 0) {
    return <Empty title="No events yet">They show here when they are appended.</Empty>;
  }
  const row = (at: number) => {
    const sequence = at + 1;
    const run = log.runOf(sequence);
    const event = log.get(sequence);
    if (run) {
      return <Hidden run={run} show={() => model.go({rewound: true}, true)} />;
    }
    return event ? (
      <EventView {...{model, event, isFocused: at === keys.focused}} />
    ) : (
      <article class="event" aria-label={`Event ${sequence}, loading`} tabIndex={-1}>
        <span class="sequence">{sequence}</span>
      </article>
    );
  };
  return (
    <>
      <Notice text={log.error.value} retry={see} />
      <List {...{list, count, row}} role="feed" label="Events" onKeyDown={keys.press} />
    </>
  );
}

/** Moves the focus from event to event: arrows, or j and k; Home and End. Enter selects. */
function useKeys(model: SessionModel) {
  const {list} = model;
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
  /** Focuses the next row that has a height, if there is one. */
  const focus = (from: number, by: 1 | -1) => {
    let row = from;
    while (row > 0 && row < heights.count - 1 && heights.height(row) === 0) {
      row += by;
    }
    isWanted.current = true;
    focused.value = Math.max(0, Math.min(row, heights.count - 1));
    if (focused.value < first || focused.value > last) {
      list.show(focused.value);
    }
  };
  const press = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    const row = Number(target.closest<HTMLElement>('[data-row]')?.dataset['row']);
    const moves: Record<string, () => void> = {
      ...{ArrowDown: () => focus(row + 1, 1), j: () => focus(row + 1, 1)},
      ...{ArrowUp: () => focus(row - 1, -1), k: () => focus(row - 1, -1)},
      ...{Home: () => focus(0, 1), End: () => focus(heights.count - 1, -1)},
      ...(target.matches('article') && {Enter: () => model.pick(row + 1)}),
    };
    const isOther = event.ctrlKey || event.metaKey || event.altKey || target.closest('input');
    const move = isOther ? undefined : moves[event.key];
    if (move) {
      event.preventDefault();
      move();
    }
  };
  // Tab reaches the list at an event that is in the page.
  const isInPage = first <= focused.value && focused.value <= last;
  return {press, focused: isInPage ? focused.value : Math.min(list.anchor.row, last)};
}
