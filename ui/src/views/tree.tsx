/** A tree of JSON: folded, searched, copied, with every digit of its numbers. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {Raw, nestedJson, pathOf, writeJson, type Json} from '../json.js';
import {base64Bytes, bytesText} from '../text.js';
import {Copy, Link, LongText, Text} from './common.js';

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
  return (
    <div class="tree">
      <Node {...props} />
    </div>
  );
}

function Node(props: NodeProps) {
  const {json, path = '', name} = props;
  const isDecoded = useSignal(true);
  const nested = typeof json === 'string' ? nestedJson(json) : undefined;
  const shown = nested !== undefined && isDecoded.value ? nested : json;
  const label = path || 'everything';
  const text = () => (typeof json === 'string' ? json : writeJson(json, 2));
  const after = (
    <>
      {nested !== undefined && (
        <button class="tag" onClick={() => (isDecoded.value = !isDecoded.value)}>
          {isDecoded.value ? 'JSON in text' : 'decode'}
        </button>
      )}
      <span class="copies">
        <Copy {...{text, label: `the value of ${label}`}}>copy</Copy>
        {path && <Copy {...{text: () => path, label: `the path ${label}`}}>path</Copy>}
      </span>
    </>
  );
  return (
    <div class="node">
      {shown instanceof Map || Array.isArray(shown) ? (
        <Container {...props} json={shown}>
          {after}
        </Container>
      ) : (
        <>
          <Name name={name} />
          <Leaf json={json} />
          {after}
        </>
      )}
    </div>
  );
}

type ContainerProps = NodeProps & {json: Json[] | Map<string, Json>; children: ComponentChildren};

function Container({json, path = '', name, filter = '', open = 1, children}: ContainerProps) {
  const isOpen = useSignal(open > 0);
  const limit = useSignal(MORE);
  const isShown = isOpen.value || filter !== '';
  const isList = Array.isArray(json);
  const all = [...json.entries()] as [string | number, Json][];
  const has = (key: string | number) => !isList && String(key).toLowerCase().includes(filter);
  const isMatch = ([key, value]: [string | number, Json]) => has(key) || matches(value, filter);
  const members = filter ? all.filter(isMatch) : all;
  return (
    <>
      <button class="fold" aria-expanded={isShown} onClick={() => (isOpen.value = !isShown)}>
        <Name name={name} />
        <span class="dim">{isList ? `[${all.length}]` : `{${all.length}}`}</span>
        {!isShown && (
          <span class="preview">
            {' '}
            <Text text={writeJson(json).slice(0, 80)} />
          </span>
        )}
      </button>
      {children}
      {isShown && (
        <div class="members">
          {members.slice(0, limit.value).map(([key, value]) => (
            <Node
              key={key}
              {...{json: value, path: pathOf(path, key), name: key, open: open - 1}}
              filter={has(key) ? '' : filter}
            />
          ))}
          {members.length > limit.value && (
            <Link run={() => (limit.value += MORE)}>{members.length - limit.value} more</Link>
          )}
        </div>
      )}
    </>
  );
}

function Name({name}: {name: string | number | undefined}) {
  return name === undefined ? null : (
    <span class={typeof name === 'number' ? 'position' : 'name'}>
      <Text text={String(name)} />
      <span class="dim">: </span>
    </span>
  );
}

/** A value without members. */
function Leaf({json}: {json: Json}) {
  if (typeof json !== 'string') {
    return <span class="literal">{json instanceof Raw ? json.text : String(json)}</span>;
  }
  const bytes = base64Bytes(json);
  return bytes === undefined ? (
    <LongText text={json} class="string" />
  ) : (
    <span class="string">
      <span class="tag">base64, {bytesText(bytes)}</span> <Text text={json} limit={40} />
    </span>
  );
}

/** Whether a name or a value, at any depth, has the text. */
export function matches(json: Json, filter: string): boolean {
  return writeJson(json).toLowerCase().includes(filter);
}
