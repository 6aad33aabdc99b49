/** What changes a session. Each dialog names the thing, and does nothing before it is confirmed. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {TEXT, call, messageOf} from '../api.js';
import type {Address, Scope, Session} from '../contract.js';
import {parseJson, tryJson, writeJson} from '../json.js';
import {readState, scopeOf} from '../state.js';
import {countText} from '../text.js';
import {Dialog, Notice, Text} from './common.js';

/** Author of the page's changes in the log. */
const AUTHOR = 'inspector';

interface ConfirmProps {
    title: string;
    /** On the button: the verb. */
    verb: string;
    isDangerous?: boolean;
    /** Why it cannot be confirmed yet. */
    fault?: string;
    run: () => Promise<void>;
    close: () => void;
    children: ComponentChildren;
}

function Confirm({title, verb, isDangerous, fault, run, close, children}: ConfirmProps) {
    const error = useSignal('');
    const isBusy = useSignal(false);
    const confirm = async (event: Event) => {
        event.preventDefault();
        isBusy.value = true;
        error.value = '';
        await run().catch((failure: unknown) => {
            error.value = messageOf(failure);
        });
        isBusy.value = false;
    };
    return (
        <Dialog title={title} close={close}>
            <form onSubmit={event => void confirm(event)}>
                {children}
                {error.value && <Notice>{error.value}</Notice>}
                {fault && <p class="fault">{fault}</p>}
                <div class="dialog-buttons">
                    <button type="button" onClick={close}>
                        Cancel
                    </button>
                    <button
                        type="submit"
                        class={isDangerous ? 'danger' : 'primary'}
                        disabled={isBusy.value || !!fault}>
                        {verb}
                    </button>
                </div>
            </form>
        </Dialog>
    );
}

interface SessionProps {
    address: Address;
    session: Session;
    close: () => void;
}

function Named({address, session}: {address: Address; session: Session}) {
    return (
        <p class="thing">
            <strong>
                <Text text={session.displayName || address.sessionId} />
            </strong>
            <br />
            <Text text={address.appName} /> / <Text text={address.userId} /> /{' '}
            <Text text={address.sessionId} />
        </p>
    );
}

export function ForkDialog({
    address,
    session,
    sequence,
    close,
    done,
}: SessionProps & {sequence: number; done: (fork: Address) => void}) {
    const id = useSignal('');
    const run = async () => {
        const precondition = {uid: session.uid ?? ''};
        const request = {
            key: address,
            upToSequence: String(sequence),
            sessionId: id.value,
            precondition,
        };
        const fork = await call('SessionService/ForkSession', {...request, ...TEXT});
        done({...address, sessionId: fork.session?.key?.sessionId ?? id.value});
    };
    return (
        <Confirm title={`Fork at event ${sequence}`} verb="Fork" {...{run, close}}>
            <p>The new session gets the events up to {sequence} and the state as of then, from:</p>
            <Named {...{address, session}} />
            <label class="field">
                Id of the new session
                <input
                    placeholder="made by the server"
                    onInput={input => (id.value = input.currentTarget.value)}
                />
            </label>
        </Confirm>
    );
}

export function RewindDialog({
    address,
    session,
    sequence,
    last,
    close,
}: SessionProps & {sequence: number; last: number}) {
    const run = async () => {
        const precondition = {uid: session.uid ?? '', expectedSequence: String(last)};
        const request = {key: address, toSequence: String(sequence), author: AUTHOR, precondition};
        await call('SessionService/RewindSession', {...request, ...TEXT});
        close();
    };
    return (
        <Confirm title={`Rewind to event ${sequence}`} verb="Rewind" isDangerous {...{run, close}}>
            <p>
                {countText(last - sequence, 'event')} will be hidden, and the session&rsquo;s own
                state will be as it was. A rewind can be rewound. It is refused if an event is
                appended meanwhile.
            </p>
            <Named {...{address, session}} />
        </Confirm>
    );
}

export function DeleteDialog({address, session, close, done}: SessionProps & {done: () => void}) {
    const typed = useSignal('');
    const run = async () => {
        const precondition = {uid: session.uid ?? ''};
        await call('SessionService/DeleteSession', {key: address, precondition});
        done();
    };
    const fault = typed.value === address.sessionId ? '' : 'Type the id of the session to confirm.';
    return (
        <Confirm title="Delete the session" verb="Delete" isDangerous {...{run, close, fault}}>
            <p>
                {countText(Number(session.lastSequence ?? 0), 'event')} and the session&rsquo;s own
                state will be gone for good.
            </p>
            <Named {...{address, session}} />
            <label class="field">
                Id of the session
                <input
                    autocomplete="off"
                    onInput={input => (typed.value = input.currentTarget.value)}
                />
            </label>
        </Confirm>
    );
}

interface EditProps {
    scope: Scope;
    /** Empty: a key that is to be named. */
    name: string;
    /** State, versions and uid on which the change depends. */
    seen: Session;
    close: () => void;
    done: () => void;
}

export function EditDialog({scope, name, seen, close, done}: EditProps) {
    const key = useSignal(name);
    const value = readState(seen.stateJson).get(key.value);
    const text = useSignal(value === undefined ? '' : writeJson(value, 2));
    const isRemoval = useSignal(false);
    const run = async () => {
        const version = seen.versions?.[key.value];
        const check = value === undefined ? {exists: false} : {version: version ?? '0'};
        const setJson = writeJson(new Map([[key.value, parseJson(text.value || 'null')]]));
        await call('StateService/UpdateState', {
            scope,
            delta: isRemoval.value ? {remove: [key.value]} : {setJson},
            precondition: {uid: seen.uid ?? '', keys: [{key: key.value, ...check}]},
            author: AUTHOR,
            ...TEXT,
        });
        done();
    };
    const isJson = isRemoval.value || tryJson(text.value) !== undefined;
    const fault = isJson ? '' : 'The value must be JSON: "text" in quotes, a number, {…}, […].';
    return (
        <Confirm title={name ? 'Change a key' : 'Set a key'} verb="Save" {...{run, close, fault}}>
            {name ? (
                <p class="thing">
                    <strong>
                        <Text text={name} />
                    </strong>{' '}
                    of the {scopeOf(name)}, <Text text={scopeText(scope)} />
                </p>
            ) : (
                <label class="field">
                    Key, with the prefix of its scope
                    <input
                        value={key.value}
                        onInput={input => (key.value = input.currentTarget.value)}
                    />
                </label>
            )}
            <label class="field">
                Value as JSON
                <textarea
                    rows={8}
                    spellcheck={false}
                    value={text.value}
                    disabled={isRemoval.value}
                    onInput={input => (text.value = input.currentTarget.value)}
                />
            </label>
            {value !== undefined && (
                <label>
                    <input
                        type="checkbox"
                        onChange={input => (isRemoval.value = input.currentTarget.checked)}
                    />{' '}
                    remove the key
                </label>
            )}
            <p class="dim">It is refused if the key has changed since it was read.</p>
        </Confirm>
    );
}

function scopeText({appName, userId, sessionId}: Scope): string {
    return [appName, userId, sessionId].filter(Boolean).join(' / ');
}
