/** A tree of JSON: folded, searched, copied, with every digit of its numbers. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {Raw, nestedJson, pathOf, writeJson, type Json} from '../json.js';
import {base64Bytes, bytesText} from '../text.js';
import {Button, Copy, LongText, shown, useSome} from './common.js';

const MORE = 100;

interface NodeProps {
  json: Json;
  /** As jq writes it. */
  path?: string;
  /** Name or position in its parent. */
  name?: string | number | undefined;
  /** Only what has this in a name or a value, in lower case. */
  filter?: string;
  /** Levels that are unfolded at first. */
  open?: number;
}

export function Tree(props: NodeProps) {
  return <div class="tree">{<Node {...props} />}</div>;
}

function Node(props: NodeProps) {
  const {json, path = '', name} = props;
  const isDecoded = useSignal(true);
  const nested = typeof json === 'string' ? nestedJson(json) : undefined;
  const decoded = nested !== undefined && isDecoded.value ? nested : json;
  const text = () => (typeof json === 'string' ? json : writeJson(json, 2));
  const toggle = {
    label: isDecoded.value ? 'JSON in text' : 'decode',
    run: () => (isDecoded.value = !isDecoded.value),
  };
  const after = (
    <>
      {nested !== undefined && <Button class="tag" {...toggle} />}
      <span class="copies">
        <Copy name="copy" text={text} label={`the value of ${path || 'everything'}`} />
        {path && <Copy name="path" text={() => path} label={`the path ${path}`} />}
      </span>
    </>
  );
  if (decoded instanceof Map || Array.isArray(decoded)) {
    return <Container {...props} json={decoded} after={after} />;
  }
  return <div class="node">{[nameOf(name), leaf(json), after]}</div>;
}

type ContainerProps = NodeProps & {json: Json[] | Map<string, Json>; after: ComponentChildren};

function Container({json, path = '', name, filter = '', open = 1, after}: ContainerProps) {
  const isOpen = useSignal(open > 0);
  const isShown = isOpen.value || filter !== '';
  const isList = Array.isArray(json);
  const all = [...json.entries()] as [string | number, Json][];
  const has = (key: string | number) => !isList && String(key).toLowerCase().includes(filter);
  const [members, more] = useSome(
    all.filter(([key, value]) => !filter || has(key) || matches(value, filter)),
    MORE,
  );
  return (
    <div class="node">
      <button class="fold" aria-expanded={isShown} onClick={() => (isOpen.value = !isShown)}>
        {nameOf(name)}
        <span class="dim">{isList ? `[${all.length}]` : `{${all.length}}`} </span>
        {!isShown && <span class="dim">{shown(writeJson(json), 80)}</span>}
      </button>
      {after}
      {isShown && (
        <div class="members">
          {members.map(([key, value]) => {
            const inner = {json: value, path: pathOf(path, key), name: key, open: open - 1};
            return <Node key={key} {...inner} filter={has(key) ? '' : filter} />;
          })}
          {more}
        </div>
      )}
    </div>
  );
}

function nameOf(name: string | number | undefined) {
  const kind = typeof name === 'number' ? 'dim' : 'name';
  return name === undefined ? null : <span class={kind}>{[shown(String(name)), ': ']}</span>;
}

/** A value without members. */
function leaf(json: Json) {
  if (typeof json !== 'string') {
    return <span class="literal">{json instanceof Raw ? json.text : String(json)}</span>;
  }
  const bytes = base64Bytes(json);
  if (bytes === undefined) {
    return <LongText text={json} class="string" />;
  }
  const size = <span class="tag">base64, {bytesText(bytes)}</span>;
  return <span class="string">{[size, ' ', shown(json, 40)]}</span>;
}

/** Whether a name or a value, at any depth, has the text. */
export function matches(json: Json, filter: string): boolean {
  return writeJson(json).toLowerCase().includes(filter);
}
