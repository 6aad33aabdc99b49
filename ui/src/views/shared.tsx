/** The state of an application or of a user, as it is now. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {isAbort, isReadOnly, messageOf} from '../api.js';
import type {Session} from '../contract.js';
import {mayWrite} from '../rights.js';
import {go, type SharedState} from '../route.js';
import {compare, readState} from '../state.js';
import {follow, watchState} from '../watch.js';
import {wholeState} from '../whole_state.js';
import {Notice} from './common.js';
import {EditDialog} from './dialogs.js';
import {History} from './history.js';
import {Keys} from './keys.js';

export function SharedStateView({route}: {route: SharedState}) {
    const {appName, userId, key} = route;
    const scope = {appName, userId};
    const state = useSignal<Session | undefined>(undefined);
    const error = useSignal('');
    const filter = useSignal('');
    const edited = useSignal<string | undefined>(undefined);
    const canWrite = useSignal(false);
    const version = useSignal(0);
    const read = () =>
        wholeState(scope).then(
            found => {
                state.value = found;
                error.value = '';
                version.value += 1;
            },
            (failure: unknown) => (error.value = isAbort(failure) ? '' : messageOf(failure)),
        );
    useEffect(() => {
        void read();
        // The right to change an application's state cannot be asked for without a change.
        const asked = userId ? mayWrite({appName, userId, sessionId: '-'}) : Promise.resolve(true);
        void asked.then(may => (canWrite.value = may));
        return follow(scope, message => {
            if (message.stateChange || message.caughtUp) {
                void read();
            }
        });
    }, []);
    const edit =
        canWrite.value && !isReadOnly.value ? (name: string) => (edited.value = name) : undefined;
    const scopes = userId ? (['user', 'application'] as const) : (['application'] as const);
    const values = readState(state.value?.stateJson);
    return (
        <div class="page shared">
            {error.value && <Notice>{error.value}</Notice>}
            {watchState.value === 'lost' && (
                <Notice kind="warning">Not current: the connection was lost. Trying again.</Notice>
            )}
            {key !== undefined ? (
                <History
                    {...{scope, name: key, version: version.value}}
                    close={() => go({...route, key: undefined})}
                />
            ) : (
                <section class="state" aria-label="State">
                    <div class="pane-tools">
                        <input
                            type="search"
                            placeholder="Filter keys and values"
                            aria-label="Filter the state"
                            onInput={input => (filter.value = input.currentTarget.value)}
                        />
                        {edit && <button onClick={() => edit('')}>Set a key…</button>}
                    </div>
                    {state.value && (
                        <Keys
                            {...{
                                entries: compare(values, values),
                                filter: filter.value,
                                onlyChanges: false,
                            }}
                            scopes={scopes}
                            actions={{history: name => go({...route, key: name}), edit}}
                        />
                    )}
                </section>
            )}
            {edited.value !== undefined && state.value && (
                <EditDialog
                    {...{scope, name: edited.value, seen: state.value}}
                    close={() => (edited.value = undefined)}
                    done={() => {
                        edited.value = undefined;
                        void read();
                    }}
                />
            )}
        </div>
    );
}
