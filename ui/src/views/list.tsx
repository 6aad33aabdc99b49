/** A list that has only the rows that are seen in the page, however many there are. */

import type {ComponentChildren} from 'preact';
import {useEffect, useLayoutEffect, useRef} from 'preact/hooks';
import type {ListModel} from '../list.js';

interface ListProps {
  list: ListModel;
  count: number;
  row: (row: number) => ComponentChildren;
  role: 'feed' | 'rowgroup';
  label: string;
  onKeyDown?: (event: KeyboardEvent) => void;
}

export function List({list, count, row, role, label, onKeyDown}: ListProps) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => list.attach(element.current), [list]);
  useLayoutEffect(() => list.resize(count), [list, count]);
  // After each layout, when the page has the height of all rows.
  useLayoutEffect(() => list.settle());
  void list.layout.value;
  const [first, last] = list.range.value;
  const range = Array.from({length: Math.min(last + 1, count) - first}, (_, at) => first + at);
  const rows = range.filter(at => list.heights.height(at) > 0);
  const style = {height: `${list.heights.total}px`};
  return (
    <div class="list" ref={element} onScroll={() => list.scrolled()}>
      <div class="list-all" {...{style, role, onKeyDown}} aria-label={label}>
        {rows.map(at => (
          <Row key={at} {...{list, at}}>
            {row(at)}
          </Row>
        ))}
      </div>
    </div>
  );
}

function Row({list, at, children}: {list: ListModel; at: number; children: ComponentChildren}) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => (element.current ? list.observe(element.current) : undefined), [list, at]);
  const style = {top: `${list.heights.top(at)}px`};
  return (
    <div class="list-row" role="presentation" ref={element} data-row={at} style={style}>
      {children}
    </div>
  );
}
