/** The slider over the events of a session. */

import {countText, timeText} from '../text.js';
import {Button} from './common.js';

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
  const names = {'aria-label': 'State as of event', 'aria-valuetext': text};
  const range = {type: 'range', min: 0, max: last, value, ...names} as const;
  return (
    <div class="timeline" role="group" aria-label="Time">
      <Button label="‹" title="One event back" run={() => step(-1)} />
      <input {...range} onInput={input => select(Number(input.currentTarget.value))} />
      <Button label="›" title="One event on" run={() => step(1)} />
      <span class="timeline-text">
        {at === undefined ? countText(last, 'event') : text}{' '}
        {at !== undefined && <span class="dim">{timeText(time)}</span>}
      </span>
      <Button label="Now" pressed={at === undefined} run={() => select(undefined)} />
    </div>
  );
}
