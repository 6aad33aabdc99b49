/** The parts of an event's body: texts, calls with their results, files. */

import {useSignal} from '@preact/signals';
import type {Call, Part, Result} from '../body.js';
import {nestedJson} from '../json.js';
import type {EventLog} from '../log.js';
import {callOf, resultOf} from '../pairs.js';
import {bytesText} from '../text.js';
import {Copy, Link, LongText, Text} from './common.js';
import {Tree} from './tree.js';

/** Images that run nothing and load nothing. */
const IMAGE = /^image\/(?:png|jpeg|gif|webp|avif)$/;
const MAX_IMAGE_CHARACTERS = 4 << 20;

interface PartProps {
  part: Part;
  log: EventLog;
  sequence: number;
  /** Shows another event. */
  select: (sequence: number) => void;
}

export function PartView({part, log, sequence, select}: PartProps) {
  switch (part.kind) {
    case 'text':
      return (
        <div class="prose">
          {/* A text that is JSON is shown as such. */}
          {nestedJson(part.text) ? <Tree json={part.text} /> : <LongText text={part.text} />}
        </div>
      );
    case 'thought':
      return (
        <details class="thought">
          <summary>Thought</summary>
          <LongText text={part.text} />
        </details>
      );
    case 'call':
      return <CallView {...{call: part, log, sequence, select}} />;
    case 'result':
      return <ResultView {...{result: part, log, sequence, select}} />;
    case 'data':
      return <Data mimeType={part.mimeType} base64={part.base64} />;
    case 'file':
      return (
        <p>
          <Tag text={part.mimeType || 'file'} /> <Text text={part.uri} />
        </p>
      );
    case 'other':
      return <Tree json={part.json} open={2} />;
  }
}

export function Tag({text}: {text: string}) {
  return (
    <span class="tag">
      <Text text={text} limit={160} />
    </span>
  );
}

type Shared = Omit<PartProps, 'part'>;

/** A call, with its result beside it. */
function CallView({call, log, sequence, select}: Shared & {call: Call}) {
  const result = resultOf(log, sequence, call);
  const origin = result && result.sequence !== sequence && (
    <Link run={() => select(result.sequence)}>event {result.sequence}</Link>
  );
  return (
    <div class="tool">
      <div>
        <h3>
          <span class="dim">call</span> <Text text={call.name || '(no name)'} />{' '}
          {call.isLong && <span class="tag">long-running</span>}
        </h3>
        <Tree json={call.args} open={2} />
      </div>
      <div>
        <h3>
          <span class="dim">result</span> {origin}
        </h3>
        {result ? (
          <Tree json={result.part.response} open={2} />
        ) : (
          <p class="dim">{call.isLong ? 'comes later' : 'none yet'}</p>
        )}
      </div>
    </div>
  );
}

/** A result by itself, or the way to its call if that is shown. */
function ResultView({result, log, sequence, select}: Shared & {result: Result}) {
  const call = callOf(log, sequence, result);
  if (call?.sequence === sequence) {
    return null;
  }
  if (call) {
    return (
      <p class="dim">
        Result of <Text text={result.name} />, beside its call at{' '}
        <Link run={() => select(call.sequence)}>event {call.sequence}</Link>
      </p>
    );
  }
  return (
    <div class="tool">
      <div>
        <h3>
          <span class="dim">result of</span> <Text text={result.name} />
        </h3>
        <Tree json={result.response} open={2} />
      </div>
    </div>
  );
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
        <Tag text={mimeType || 'data'} /> <span class="dim">base64, {bytesText(bytes)}</span>{' '}
        <Copy text={() => base64} label="the data as base64">
          copy
        </Copy>
      </figcaption>
    </figure>
  );
}
