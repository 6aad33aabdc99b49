/** The parts of an event's body: texts, calls with their results, files. */

import {useSignal} from '@preact/signals';
import type {Part, Result} from '../body.js';
import {nestedJson, type Json} from '../json.js';
import type {EventLog} from '../log.js';
import {callOf, resultOf, type Paired} from '../pairs.js';
import {bytesText} from '../text.js';
import {Copy, LongText, Text} from './common.js';
import {Leaf, Tree} from './tree.js';

/** Images that run nothing and load nothing. */
const IMAGE = /^image\/(?:png|jpeg|gif|webp|avif)$/;
const MAX_IMAGE_CHARACTERS = 4 << 20;

interface PartsProps {
    parts: Part[];
    log: EventLog;
    sequence: number;
    /** Shows another event. */
    select: (sequence: number) => void;
}

export function Parts({parts, log, sequence, select}: PartsProps) {
    return (
        <>
            {parts.map((part, at) => (
                <PartView key={at} {...{part, log, sequence, select}} />
            ))}
        </>
    );
}

function PartView({part, log, sequence, select}: Omit<PartsProps, 'parts'> & {part: Part}) {
    switch (part.kind) {
        case 'text':
            return <Prose text={part.text} />;
        case 'thought':
            return <Thought text={part.text} />;
        case 'call':
            return <CallView {...{part, log, sequence, select}} />;
        case 'result': {
            const call = callOf(log, sequence, part);
            return call && call.sequence !== sequence ? (
                <p class="elsewhere">
                    Result of <Text text={part.name} />, shown with its call at{' '}
                    <EventLink sequence={call.sequence} select={select} />
                </p>
            ) : (
                <div class="tool">
                    <ResultView result={part} />
                </div>
            );
        }
        case 'data':
            return <Data mimeType={part.mimeType} base64={part.base64} />;
        case 'file':
            return (
                <p class="file">
                    <span class="tag">
                        <Text text={part.mimeType || 'file'} />
                    </span>{' '}
                    <Text text={part.uri} />
                </p>
            );
        case 'other':
            return <Tree json={part.json} open={2} />;
    }
}

/** What somebody said. A text that is JSON is shown as such. */
function Prose({text}: {text: string}) {
    return (
        <div class="prose">
            {nestedJson(text) === undefined ? <LongText text={text} /> : <Tree json={text} />}
        </div>
    );
}

function Thought({text}: {text: string}) {
    return (
        <details class="thought">
            <summary>Thought</summary>
            <LongText text={text} />
        </details>
    );
}

export function EventLink({sequence, select}: {sequence: number; select: (to: number) => void}) {
    return (
        <button class="link" onClick={() => select(sequence)}>
            event {sequence}
        </button>
    );
}

type CallProps = Omit<PartsProps, 'parts'> & {part: Extract<Part, {kind: 'call'}>};

function CallView({part, log, sequence, select}: CallProps) {
    const result = resultOf(log, sequence, part);
    return (
        <div class="tool">
            <div class="tool-call">
                <h4>
                    <span class="tool-kind">call</span> <Text text={part.name || '(no name)'} />
                    {part.isLong && <span class="tag">long-running</span>}
                </h4>
                <Value json={part.args} />
            </div>
            {result ? (
                <ResultView result={result.part} from={result} select={select} />
            ) : (
                <div class="tool-result dim">
                    <h4>
                        <span class="tool-kind">result</span>
                    </h4>
                    <p>{part.isLong ? 'Comes later' : 'Not here'}</p>
                </div>
            )}
        </div>
    );
}

interface ResultProps {
    result: Result;
    from?: Paired<Result>;
    select?: (sequence: number) => void;
}

function ResultView({result, from, select}: ResultProps) {
    return (
        <div class="tool-result">
            <h4>
                <span class="tool-kind">result</span>{' '}
                {from && select ? (
                    <EventLink sequence={from.sequence} select={select} />
                ) : (
                    <Text text={result.name} />
                )}
            </h4>
            <Value json={result.response} />
        </div>
    );
}

function Value({json}: {json: Json}) {
    const hasMembers = json instanceof Map || Array.isArray(json) || typeof json === 'string';
    return hasMembers ? <Tree json={json} open={2} /> : <Leaf json={json} />;
}

function Data({mimeType, base64}: {mimeType: string; base64: string}) {
    const isBroken = useSignal(false);
    const isImage = IMAGE.test(mimeType) && base64.length < MAX_IMAGE_CHARACTERS && !isBroken.value;
    const bytes = Math.floor((base64.replace(/=+$/, '').length * 3) / 4);
    return (
        <figure class="data">
            {isImage && (
                <img
                    src={`data:${mimeType};base64,${base64}`}
                    alt={`Image of the event, ${mimeType}`}
                    onError={() => (isBroken.value = true)}
                />
            )}
            <figcaption>
                <span class="tag">
                    <Text text={mimeType || 'data'} />
                </span>{' '}
                <span class="dim">{bytesText(bytes)}</span>{' '}
                <Copy text={() => base64} label="the data as base64">
                    copy
                </Copy>
            </figcaption>
        </figure>
    );
}
