/** The parts of an event's body: texts, calls with their results, files. */

import {useSignal} from '@preact/signals';
import type {Call, Part, Result} from '../body.js';
import {nestedJson} from '../json.js';
import {callOf, resultOf} from '../pairs.js';
import type {SessionModel} from '../session.js';
import {bytesText} from '../text.js';
import {Copy, Link, LongText, shown, tag} from './common.js';
import {Tree} from './tree.js';

/** Images that run nothing and load nothing. */
const IMAGE = /^image\/(?:png|jpeg|gif|webp|avif)$/;
const MAX_IMAGE_CHARACTERS = 4 << 20;

type Context = {model: SessionModel; sequence: number};

export function PartView({part, ...context}: Context & {part: Part}) {
  switch (part.kind) {
    case 'text': {
      // A text that is JSON is shown as such.
      const isJson = nestedJson(part.text) !== undefined;
      return <div class="prose">{isJson ? <Tree json={part.text} /> : <LongText {...part} />}</div>;
    }
    case 'thought':
      return (
        <details class="thought">
          <summary>Thought</summary>
          <LongText text={part.text} />
        </details>
      );
    case 'call':
      return <CallView call={part} {...context} />;
    case 'result':
      return <ResultView result={part} {...context} />;
    case 'data':
      return <Data {...part} />;
    case 'file':
      return <p>{[tag(part.mimeType || 'file'), ' ', shown(part.uri)]}</p>;
    case 'other':
      return <Tree json={part.json} open={2} />;
  }
}

function EventLink({model, sequence}: Context) {
  return <Link label={`event ${sequence}`} run={() => model.pick(sequence)} />;
}

/** A call, with its result beside it. */
function CallView({call, model, sequence}: Context & {call: Call}) {
  const {name, args, isLong} = call;
  const result = resultOf(model.log, sequence, call);
  const none = <p class="dim">{isLong ? 'comes later' : 'none yet'}</p>;
  return (
    <div class="tool">
      <div>
        <h3>
          <span class="dim">call</span> {shown(name || '(no name)')} {isLong && tag('long-running')}
        </h3>
        <Tree json={args} open={2} />
      </div>
      <div>
        <h3>
          <span class="dim">result</span>{' '}
          {result && result.sequence !== sequence && (
            <EventLink model={model} sequence={result.sequence} />
          )}
        </h3>
        {result ? <Tree json={result.part.response} open={2} /> : none}
      </div>
    </div>
  );
}

/** A result by itself, or the way to its call if that is shown. */
function ResultView({result, model, sequence}: Context & {result: Result}) {
  const call = callOf(model.log, sequence, result);
  if (call) {
    return call.sequence === sequence ? null : (
      <p class="dim">
        Result of {shown(result.name)}, beside its call at{' '}
        <EventLink model={model} sequence={call.sequence} />
      </p>
    );
  }
  return (
    <div class="tool">
      <div>
        <h3>
          <span class="dim">result of</span> {shown(result.name)}
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
  const source = `data:${mimeType};base64,${base64}`;
  const alt = `Image of the event, ${mimeType}`;
  return (
    <figure class="data">
      {isImage && <img src={source} alt={alt} onError={() => (isBroken.value = true)} />}
      <figcaption>
        {tag(mimeType || 'data')} <span class="dim">base64, {bytesText(bytes)}</span>{' '}
        <Copy name="copy" text={() => base64} label="the data as base64" />
      </figcaption>
    </figure>
  );
}
