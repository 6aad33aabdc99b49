/** The results of a search in the open session. */

import {useSignal} from '@preact/signals';
import {find, type Found} from '../find.js';
import type {SessionModel} from '../session.js';
import {countText} from '../text.js';
import {Button, Link, Notice, shown, useRead} from './common.js';

const MORE = 100;

type Props = {model: SessionModel; text: string; rewound: boolean};

export function FindResults({model, text, rewound}: Props) {
  const found = useSignal<Found>({hits: [], seen: 0});
  const limit = useSignal(MORE);
  const state = useSignal<'searching' | 'stopped' | 'done'>('searching');
  const search = async (abort: AbortSignal) => {
    state.value = 'searching';
    for await (const part of find(model.address, text, rewound, abort)) {
      found.value = part;
      if (state.peek() === ('stopped' as string)) {
        return;
      }
    }
    state.value = 'done';
  };
  const {message} = useRead(search, [text, rewound]);
  const {hits, seen} = found.value;
  const of = [seen, model.newest.value].map(count => count.toLocaleString('en')).join(' of ');
  const isSearching = state.value === 'searching' && !message;
  const rest = hits.length - limit.value;
  return (
    <section class="found" aria-label="Search results">
      <div class="pane-head">
        <h2>
          <span role="status">{countText(hits.length, 'event')} with</span> {shown(text, 60)}{' '}
          {state.value !== 'done' && <span class="dim">searched {of}</span>}
        </h2>
        {isSearching && <Button label="Stop" run={() => (state.value = 'stopped')} />}
        <Button label="Close search" run={() => model.go({find: undefined})} />
      </div>
      <Notice text={message} />
      <ol>
        {hits.slice(0, limit.value).map(({sequence, author, place, snippet}) => (
          <li key={sequence}>
            <button class="hit" onClick={() => model.select(sequence)}>
              <span class="sequence">{sequence}</span>
              <span class="dim">{[shown(author, 40), ` · ${place}`]}</span>
              {shown(snippet, 160)}
            </button>
          </li>
        ))}
      </ol>
      {rest > 0 && <Link label={`${rest} more`} run={() => (limit.value += MORE)} />}
    </section>
  );
}
