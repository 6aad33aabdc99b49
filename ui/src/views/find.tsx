/** The results of a search in the open session. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {isAbort, messageOf} from '../api.js';
import {find, type Found} from '../find.js';
import type {SessionModel} from '../session.js';
import {countText} from '../text.js';
import {Notice, Text} from './common.js';

interface Props {
    model: SessionModel;
    text: string;
    rewound: boolean;
    select: (sequence: number) => void;
    close: () => void;
}

const SHOWN = 100;

export function FindResults({model, text, rewound, select, close}: Props) {
    const found = useSignal<Found>({hits: [], seen: 0});
    const state = useSignal<'searching' | 'done' | 'stopped'>('searching');
    const error = useSignal('');
    const limit = useSignal(SHOWN);
    const stop = useSignal<(() => void) | undefined>(undefined);
    useEffect(() => {
        const abort = new AbortController();
        stop.value = () => {
            state.value = 'stopped';
            abort.abort();
        };
        state.value = 'searching';
        error.value = '';
        limit.value = SHOWN;
        void search(abort.signal);
        return () => abort.abort();
    }, [model, text, rewound]);
    const search = async (abort: AbortSignal) => {
        try {
            for await (const part of find(model.address, text, rewound, abort)) {
                found.value = part;
            }
            state.value = 'done';
        } catch (failure) {
            if (!isAbort(failure)) {
                error.value = messageOf(failure);
                state.value = 'stopped';
            }
        }
    };
    const {hits, seen} = found.value;
    return (
        <section class="found" aria-label="Search results">
            <div class="pane-head">
                <h2>
                    <span role="status">
                        {countText(hits.length, 'event')} with <Text text={text} limit={60} />
                    </span>
                    {state.value === 'searching' && (
                        <span class="dim">
                            {' '}
                            searched {seen.toLocaleString('en')} of{' '}
                            {model.newest.value.toLocaleString('en')}
                        </span>
                    )}
                </h2>
                {state.value === 'searching' && (
                    <button onClick={() => stop.value?.()}>Stop</button>
                )}
                <button onClick={close}>Close search</button>
            </div>
            {error.value && <Notice>{error.value}</Notice>}
            <ol>
                {hits.slice(0, limit.value).map(hit => (
                    <li key={hit.sequence}>
                        <button class="hit" onClick={() => select(hit.sequence)}>
                            <span class="sequence">{hit.sequence}</span>
                            <span class="dim">
                                <Text text={hit.author} limit={40} /> · {hit.place}
                            </span>
                            <span class="snippet">
                                <Text text={hit.snippet} limit={160} />
                            </span>
                        </button>
                    </li>
                ))}
            </ol>
            {hits.length > limit.value && (
                <button class="link" onClick={() => (limit.value += SHOWN)}>
                    {countText(hits.length - limit.value, 'event')} more
                </button>
            )}
        </section>
    );
}
