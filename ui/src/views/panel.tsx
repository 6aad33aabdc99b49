/** The state of a session as of an event, and what differs from another one. */

import {useSignal} from '@preact/signals';
import type {Address, Session} from '../contract.js';
import {sessionAt, wholeState} from '../session.js';
import {compare, readState} from '../state.js';
import {Button, Check, Filter, Notice, useRead} from './common.js';
import {Keys} from './keys.js';

/** The slider may pass many events before it rests. */
const REST_MS = 150;

interface Props {
  address: Address;
  /** Undefined: now. */
  at: number | undefined;
  /** The event that it is compared with. */
  base: number;
  last: number;
  /** Rises when the state may have changed. */
  version: number;
  setBase: (base: number) => void;
  history: (key: string) => void;
  /** Not offered if the caller may not write. */
  edit: ((key: string, seen: Session) => void) | undefined;
}

export function StatePanel({address, at, base, last, version, setBase, history, edit}: Props) {
  const filter = useSignal('');
  const onlyChanges = useSignal(false);
  const read = async (abort: AbortSignal) => {
    const after = await sessionAt(address, at, abort);
    const before = at === base ? after : await sessionAt(address, base, abort);
    const isCut = after.stateOmitted && at === undefined;
    const whole = isCut ? {...after, ...(await wholeState(address, abort))} : after;
    return {after: whole, before: before.stateOmitted ? whole : before};
  };
  const changes = [address, at, base, at === undefined ? version : 0];
  const {value: {after, before} = {}, message} = useRead(read, changes, REST_MS);
  const isNow = at === undefined && after !== undefined;
  const change = isNow && edit ? (key: string) => edit(key, after) : undefined;
  const entries = compare(readState(before?.stateJson), readState(after?.stateJson));
  const number = {type: 'number', min: 0, max: last, value: base} as const;
  return (
    <section aria-label="State">
      <div class="pane-head">
        <h2>State {at === undefined ? 'now' : at === 0 ? 'as created' : `as of event ${at}`}</h2>
        <label>
          compared with event{' '}
          <input {...number} onChange={input => setBase(Number(input.currentTarget.value))} />
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
        text={after?.damagedKeys && `Damaged keys are left out: ${after.damagedKeys.join(', ')}`}
      />
      <Keys
        {...{entries, filter: filter.value, onlyChanges: onlyChanges.value, history}}
        {...{scopes: ['session', 'user', 'application'], edit: change}}
      />
    </section>
  );
}
