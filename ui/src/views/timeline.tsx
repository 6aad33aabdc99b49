/** The slider over the events of a session. */

import {countText, timeText} from '../text.js';

interface Props {
  /** The event that is selected; nothing: now. */
  at: number | undefined;
  last: number;
  time: string | undefined;
  select: (at: number | undefined) => void;
}

export function Timeline({at, last, time, select}: Props) {
  const value = at ?? last;
  const step = (by: number) => select(Math.max(0, Math.min(last, value + by)));
  const text = value === 0 ? 'as created' : `event ${value} of ${last}`;
  return (
    <div class="timeline" role="group" aria-label="Time">
      <button aria-label="One event back" disabled={value <= 0} onClick={() => step(-1)}>
        ‹
      </button>
      <input
        type="range"
        min={0}
        max={last}
        value={value}
        aria-label="State as of event"
        aria-valuetext={text}
        onInput={input => select(Number(input.currentTarget.value))}
      />
      <button aria-label="One event on" disabled={value >= last} onClick={() => step(1)}>
        ›
      </button>
      <span class="timeline-text">
        {at === undefined ? countText(last, 'event') : text}
        {at !== undefined && time && <span class="dim"> {timeText(time)}</span>}
      </span>
      <button aria-pressed={at === undefined} onClick={() => select(undefined)}>
        Now
      </button>
    </div>
  );
}
