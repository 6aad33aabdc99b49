/** The state of a session as of an event, and what differs from another one. */

import {useSignal} from '@preact/signals';
import {sessionAt, wholeState, type SessionModel} from '../session.js';
import {compare, readState} from '../state.js';
import {plain} from '../text.js';
import {Button, Check, Filter, Notice, useRead} from './common.js';
import {Keys} from './keys.js';

/** The slider may pass many events before it rests. */
const REST_MS = 150;

/** `base` is the event that it is compared with, by default the one before. */
export function StatePanel({model, base: given}: {model: SessionModel; base: number | undefined}) {
  const {address} = model;
  const [at, last, version] = [model.at.value, model.shown.value, model.stateVersion.value];
  const base = Math.min(given ?? Math.max(0, (at ?? last) - 1), last);
  const history = (key: string) => model.go({key});
  const filter = useSignal('');
  const onlyChanges = useSignal(false);
  const read = async (abort: AbortSignal) => {
    const after = await sessionAt(address, at, abort);
    const before = at === base ? after : await sessionAt(address, base, abort);
    const isCut = after.stateOmitted && at === undefined;
    const whole = isCut ? {...after, ...(await wholeState(address, abort))} : after;
    return {after: whole, before: before.stateOmitted ? whole : before};
  };
  const changes = [at, base, at === undefined ? version : 0];
  const {value: {after, before} = {}, message} = useRead(read, changes, REST_MS);
  const seen = at === undefined && model.mayChange ? after : undefined;
  const change = seen && ((key: string) => (model.task.value = {kind: 'edit', key, seen}));
  const entries = compare(readState(before?.stateJson), readState(after?.stateJson));
  const setBase = (text: string) => model.go({base: Number(text)}, true);
  const number = {type: 'number', min: 0, max: last, value: base} as const;
  return (
    <section aria-label="State">
      <div class="pane-head">
        <h2>State {at === undefined ? 'now' : at === 0 ? 'as created' : `as of event ${at}`}</h2>
        <label>
          compared with event{' '}
          <input {...number} onChange={input => setBase(input.currentTarget.value)} />
        </label>
      </div>
      <div class="pane-tools">
        <Filter label="Filter keys and values" set={text => (filter.value = text)} />
        <Check
          label="only changes"
          value={onlyChanges.value}
          set={on => (onlyChanges.value = on)}
        />
        {change && <Button label="Set a key…" run={() => change('')} />}
      </div>
      <Notice text={message} />
      <Notice
        kind="warning"
        text={after?.stateOmitted && 'The state as of this event does not fit into an answer.'}
      />
      <Notice
        kind="warning"
        text={
          after?.damagedKeys &&
          `Damaged keys are left out: ${after.damagedKeys.map(key => plain(key)).join(', ')}`
        }
      />
      <Keys
        {...{entries, filter: filter.value, onlyChanges: onlyChanges.value, history}}
        {...{scopes: ['session', 'user', 'application'], edit: change}}
      />
    </section>
  );
}
