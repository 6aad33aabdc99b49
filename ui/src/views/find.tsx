/** The results of a search in the open session. */

import {useSignal} from '@preact/signals';
import {find, type Found} from '../find.js';
import type {SessionModel} from '../session.js';
import {countText} from '../text.js';
import {Link, Notice, Text, useRead} from './common.js';

const MORE = 100;

interface Props {
  model: SessionModel;
  text: string;
  rewound: boolean;
  select: (sequence: number) => void;
  close: () => void;
}

export function FindResults({model, text, rewound, select, close}: Props) {
  const found = useSignal<Found>({hits: [], seen: 0});
  const limit = useSignal(MORE);
  const stop = useSignal<(() => void) | undefined>(undefined);
  const search = async (abort: AbortSignal) => {
    const stopped = new AbortController();
    stop.value = () => stopped.abort();
    for await (const part of find(model.address, text, rewound, abort)) {
      found.value = part;
      if (stopped.signal.aborted) {
        break;
      }
    }
    stop.value = undefined;
  };
  const {message} = useRead(search, [text, rewound]);
  const {hits, seen} = found.value;
  const of = [seen, model.newest.value].map(count => count.toLocaleString('en')).join(' of ');
  return (
    <section class="found" aria-label="Search results">
      <div class="pane-head">
        <h2>
          <span role="status">{countText(hits.length, 'event')} with</span>{' '}
          <Text text={text} limit={60} />
          {stop.value && <span class="dim"> searched {of}</span>}
        </h2>
        {stop.value && <button onClick={stop.value}>Stop</button>}
        <button onClick={close}>Close search</button>
      </div>
      <Notice>{message}</Notice>
      <ol>
        {hits.slice(0, limit.value).map(hit => (
          <li key={hit.sequence}>
            <button class="hit" onClick={() => select(hit.sequence)}>
              <span class="sequence">{hit.sequence}</span>
              <span class="dim">
                <Text text={hit.author} limit={40} /> · {hit.place}
              </span>
              <Text text={hit.snippet} limit={160} />
            </button>
          </li>
        ))}
      </ol>
      {hits.length > limit.value && (
        <Link run={() => (limit.value += MORE)}>
          {countText(hits.length - limit.value, 'event')} more
        </Link>
      )}
    </section>
  );
}
