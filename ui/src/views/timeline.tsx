/** The slider over the events of a session. */

import type {SessionModel} from '../session.js';
import {countText, timeText} from '../text.js';
import {Button} from './common.js';

export function Timeline({model}: {model: SessionModel}) {
  const [at, last] = [model.at.value, model.shown.value];
  const time = model.log.get(at ?? 0)?.eventTime;
  const select = (to: number | undefined) => model.select(to);
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
