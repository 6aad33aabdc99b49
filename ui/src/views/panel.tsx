/** The state of a session as of an event, and what differs from another one. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {isAbort, messageOf} from '../api.js';
import type {Address, Session} from '../contract.js';
import {sessionAt} from '../session.js';
import {compare, readState} from '../state.js';
import {wholeState} from '../whole_state.js';
import {Notice} from './common.js';
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
    version: number;
    setBase: (base: number | undefined) => void;
    history: (key: string) => void;
    /** Not offered if the caller may not write. */
    edit: ((key: string, seen: Session) => void) | undefined;
}

interface Seen {
    after: Session;
    before: Session;
}

export function StatePanel({address, at, base, last, version, setBase, ...actions}: Props) {
    const seen = useSignal<Seen | undefined>(undefined);
    const error = useSignal('');
    const filter = useSignal('');
    const onlyChanges = useSignal(false);
    useEffect(() => {
        const abort = new AbortController();
        const rest = setTimeout(() => {
            read(address, at, base, abort.signal).then(
                found => {
                    seen.value = found;
                    error.value = '';
                },
                (failure: unknown) => {
                    error.value = isAbort(failure) ? error.value : messageOf(failure);
                },
            );
        }, REST_MS);
        return () => {
            clearTimeout(rest);
            abort.abort();
        };
    }, [address, at, base, at === undefined ? version : 0]);
    const {after, before} = seen.value ?? {after: {}, before: {}};
    const edit = at === undefined && seen.value ? actions.edit : undefined;
    return (
        <section class="state" aria-label="State">
            <div class="pane-head">
                <h2>
                    State {at === undefined ? 'now' : at === 0 ? 'as created' : `as of event ${at}`}
                </h2>
                <label>
                    compared with event{' '}
                    <input
                        type="number"
                        {...{min: 0, max: last, value: base}}
                        onChange={input => setBase(Number(input.currentTarget.value))}
                    />
                </label>
            </div>
            <div class="pane-tools">
                <input
                    type="search"
                    placeholder="Filter keys and values"
                    aria-label="Filter the state"
                    onInput={input => (filter.value = input.currentTarget.value)}
                />
                <label>
                    <input
                        type="checkbox"
                        checked={onlyChanges.value}
                        onChange={input => (onlyChanges.value = input.currentTarget.checked)}
                    />{' '}
                    only changes
                </label>
                {edit && <button onClick={() => edit('', after)}>Set a key…</button>}
            </div>
            {error.value && <Notice>{error.value}</Notice>}
            <Missing session={after} />
            {seen.value && (
                <Keys
                    entries={compare(readState(before.stateJson), readState(after.stateJson))}
                    filter={filter.value}
                    onlyChanges={onlyChanges.value}
                    actions={{history: actions.history, edit: edit && (key => edit(key, after))}}
                />
            )}
        </section>
    );
}

/** Says what the state lacks. */
function Missing({session}: {session: Session}) {
    return (
        <>
            {session.stateOmitted && (
                <Notice kind="warning">The state of this event does not fit into an answer.</Notice>
            )}
            {session.damagedKeys && (
                <Notice kind="warning">
                    Damaged keys are left out: {session.damagedKeys.join(', ')}
                </Notice>
            )}
        </>
    );
}

async function read(
    address: Address,
    at: number | undefined,
    base: number,
    abort: AbortSignal,
): Promise<Seen> {
    const [after, before] = await Promise.all([
        sessionAt(address, at, abort),
        at === base ? undefined : sessionAt(address, base, abort),
    ]);
    const isKnown = before !== undefined && !before.stateOmitted;
    const isCut = after.stateOmitted && at === undefined;
    const whole = isCut
        ? {...after, ...(await wholeState(address, abort)), stateOmitted: false}
        : after;
    return {after: whole, before: isKnown ? before : whole};
}
