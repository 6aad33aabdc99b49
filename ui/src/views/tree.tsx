/** A tree of JSON: folded, searched, copied, with every digit of its numbers. */

import {useSignal} from '@preact/signals';
import type {ComponentChild} from 'preact';
import {Num, nestedJson, pathOf, writeJson, type Json} from '../json.js';
import {base64Bytes, bytesText} from '../text.js';
import {Copy, LongText, Text} from './common.js';

const MORE = 100;

interface NodeProps {
    json: Json;
    /** As jq writes it. */
    path: string;
    /** Name or position in its parent. */
    name?: string | number | undefined;
    /** Only what has this in a name or a value, in lower case. */
    filter?: string;
    /** Levels that are unfolded at first. */
    open?: number;
}

/** The tree of a value. */
export function Tree({
    json,
    path = '',
    filter = '',
    open = 1,
}: Omit<NodeProps, 'path'> & {path?: string}) {
    return (
        <div class="tree">
            <Node {...{json, path, filter, open}} />
        </div>
    );
}

function Node(props: NodeProps) {
    const {json} = props;
    const isRaw = useSignal(false);
    const nested = typeof json === 'string' ? nestedJson(json) : undefined;
    if (nested !== undefined && !isRaw.value) {
        const toggle = <Toggle label="JSON in text" onClick={() => (isRaw.value = true)} />;
        return <Container {...props} json={nested} text={writeJson(json)} note={toggle} />;
    }
    if (json instanceof Map || Array.isArray(json)) {
        return <Container {...props} text={undefined} />;
    }
    return (
        <div class="node">
            <Name name={props.name} />
            <Leaf json={json} />
            {nested !== undefined && (
                <Toggle label="decode" onClick={() => (isRaw.value = false)} />
            )}
            <CopyNode {...props} text={typeof json === 'string' ? json : undefined} />
        </div>
    );
}

function Toggle({label, onClick}: {label: string; onClick: () => void}) {
    return (
        <button class="tag" onClick={onClick}>
            {label}
        </button>
    );
}

type ContainerProps = NodeProps & {text: string | undefined; note?: ComponentChild};

function Container({json, path, name, filter = '', open = 0, text, note}: ContainerProps) {
    const isOpen = useSignal(open > 0);
    const limit = useSignal(MORE);
    const isList = Array.isArray(json);
    const all: [string | number, Json][] = isList
        ? json.map((item, at) => [at, item])
        : [...(json as Map<string, Json>)];
    const nameOf = (key: string | number) => (isList ? '' : String(key).toLowerCase());
    const members = filter
        ? all.filter(([key, value]) => matches(nameOf(key), value, filter))
        : all;
    const isShown = isOpen.value || filter !== '';
    const size = isList ? `[${all.length}]` : `{${all.length}}`;
    const preview = isShown ? '' : writeJson(json).slice(0, 80);
    return (
        <div class="node">
            <button class="fold" aria-expanded={isShown} onClick={() => (isOpen.value = !isShown)}>
                <span class="arrow" aria-hidden="true" />
                <Name name={name} />
                <span class="dim">{size}</span>
                {preview && (
                    <span class="preview">
                        {' '}
                        <Text text={preview} />
                    </span>
                )}
            </button>
            {note}
            <CopyNode {...{json, path, text}} />
            {isShown && (
                <div class="members">
                    {members.slice(0, limit.value).map(([key, value]) => (
                        <Node
                            key={key}
                            {...{json: value, path: pathOf(path, key), name: key, open: open - 1}}
                            filter={nameOf(key).includes(filter) ? '' : filter}
                        />
                    ))}
                    {members.length > limit.value && (
                        <button class="link" onClick={() => (limit.value += MORE)}>
                            {members.length - limit.value} more
                        </button>
                    )}
                </div>
            )}
        </div>
    );
}

function Name({name}: {name: string | number | undefined}) {
    return name === undefined ? null : (
        <span class={typeof name === 'number' ? 'position' : 'name'}>
            <Text text={String(name)} />
            <span class="dim">:</span>{' '}
        </span>
    );
}

function CopyNode({json, path, text}: {json: Json; path: string; text?: string | undefined}) {
    const label = path || 'everything';
    return (
        <span class="copies">
            <Copy text={() => text ?? writeJson(json, 2)} label={`the value of ${label}`}>
                copy
            </Copy>
            {path && (
                <Copy text={() => path} label={`the path ${label}`}>
                    path
                </Copy>
            )}
        </span>
    );
}

/** A value without members. */
export function Leaf({json}: {json: Json}) {
    if (typeof json === 'string') {
        const bytes = base64Bytes(json);
        return bytes === undefined ? (
            <LongText text={json} class="string" />
        ) : (
            <span class="string">
                <span class="tag">base64, {bytesText(bytes)}</span> <Text text={json} limit={40} />
            </span>
        );
    }
    if (json instanceof Num) {
        return (
            <span class="number">
                <Text text={json.text} />
            </span>
        );
    }
    return <span class="literal">{String(json)}</span>;
}

/** Whether a name or a value, at any depth, has the text. */
export function matches(name: string | number, json: Json, filter: string): boolean {
    if (String(name).toLowerCase().includes(filter)) {
        return true;
    }
    if (json instanceof Map) {
        return [...json].some(([key, value]) => matches(key, value, filter));
    }
    if (Array.isArray(json)) {
        return json.some(value => matches('', value, filter));
    }
    const text = json instanceof Num ? json.text : String(json);
    return text.toLowerCase().includes(filter);
}
