/** Changes of a session. Each dialog names the thing, and does nothing before it is confirmed. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useEffect, useRef} from 'preact/hooks';
import {TEXT, call, messageOf} from '../api.js';
import type {Scope, Session} from '../contract.js';
import {parseJson, tryJson, writeJson} from '../json.js';
import type {SessionModel} from '../session.js';
import {readState, scopeOf} from '../state.js';
import {countText} from '../text.js';
import {Button, Check, Field, Notice, shown} from './common.js';

/** Author of the page's changes in the log. */
const AUTHOR = 'inspector';

interface ConfirmProps {
  title: string;
  /** On the button. */
  verb: string;
  /** Names the thing. */
  address: Scope;
  /** Why it cannot be confirmed yet. */
  fault?: string;
  run: () => Promise<void>;
  close: () => void;
  children: ComponentChildren;
}

/** A modal dialog. The browser keeps the focus in it, and Escape closes it. */
function Confirm({title, verb, address, fault, run, close, children}: ConfirmProps) {
  const element = useRef<HTMLDialogElement>(null);
  const error = useSignal('');
  const isBusy = useSignal(false);
  useEffect(() => element.current?.showModal(), []);
  const confirm = async (event: Event) => {
    event.preventDefault();
    isBusy.value = true;
    await run().catch((failure: unknown) => (error.value = messageOf(failure)));
    isBusy.value = false;
  };
  const {appName, userId, sessionId} = address;
  const names = [appName, userId, sessionId].filter(Boolean).map(name => [' / ', shown(name)]);
  const kind = ['Delete', 'Rewind'].includes(verb) ? 'danger' : 'primary';
  return (
    <dialog ref={element} onClose={close} aria-labelledby="dialog-title">
      <h2 id="dialog-title">{title}</h2>
      <form onSubmit={event => void confirm(event)}>
        <p class="thing">{names.flat().slice(1)}</p>
        {children}
        <Notice text={error.value} />
        {fault && <p class="dim">{fault}</p>}
        <div class="dialog-buttons">
          <Button label="Cancel" run={close} />
          <button {...{class: kind, disabled: isBusy.value || !!fault}}>{verb}</button>
        </div>
      </form>
    </dialog>
  );
}

type SessionProps = {model: SessionModel; sequence: number; close: () => void};

/** Of this life of the session, and no later one. */
const uidOf = ({session}: SessionModel) => ({uid: session.value?.uid ?? ''});

export function ForkDialog(props: SessionProps & {done: (sessionId: string) => void}) {
  const {model, sequence, close, done} = props;
  const {address} = model;
  const id = useSignal('');
  const run = async () => {
    const [upToSequence, precondition] = [String(sequence), uidOf(model)];
    const request = {key: address, upToSequence, sessionId: id.value, precondition, ...TEXT};
    const fork = await call('SessionService/ForkSession', request);
    done(fork.session?.key?.sessionId ?? id.value);
  };
  return (
    <Confirm title={`Fork at event ${sequence}`} verb="Fork" {...{address, run, close}}>
      <p>A new session gets the events up to {sequence} and the state as of then.</p>
      <Field label="Id of the new session, or nothing" set={text => (id.value = text)} />
    </Confirm>
  );
}

export function RewindDialog(props: SessionProps & {last: number}) {
  const {model, sequence, last, close} = props;
  const {address} = model;
  const run = async () => {
    const precondition = {...uidOf(model), expectedSequence: String(last)};
    const request = {key: address, toSequence: String(sequence), author: AUTHOR, precondition};
    await call('SessionService/RewindSession', {...request, ...TEXT});
    close();
  };
  return (
    <Confirm title={`Rewind to event ${sequence}`} verb="Rewind" {...{address, run, close}}>
      <p>
        {countText(last - sequence, 'event')} will be hidden, and the session’s own state will be as
        it was. A rewind can be rewound. It is refused if an event is appended meanwhile.
      </p>
    </Confirm>
  );
}

export function DeleteDialog(props: SessionProps & {done: () => void}) {
  const {model, sequence, close, done} = props;
  const {address} = model;
  const typed = useSignal('');
  const run = async () => {
    const request = {key: address, precondition: uidOf(model)};
    await call('SessionService/DeleteSession', request);
    done();
  };
  const fault = typed.value === address.sessionId ? '' : 'Type the id of the session to confirm.';
  return (
    <Confirm title="Delete the session" verb="Delete" {...{address, run, close, fault}}>
      <p>{countText(sequence, 'event')} and the session’s own state will be gone for good.</p>
      <Field label="Id of the session" set={text => (typed.value = text)} />
    </Confirm>
  );
}

interface EditProps {
  scope: Scope;
  /** Empty: a key that is to be named. */
  name: string;
  /** State, versions and uid on which the change depends. */
  seen: Session;
  close: () => void;
  done: () => void;
}

export function EditDialog({scope, name, seen, close, done}: EditProps) {
  const key = useSignal(name);
  const value = readState(seen.stateJson).get(key.value);
  const text = useSignal(value === undefined ? '' : writeJson(value, 2));
  const isRemoval = useSignal(false);
  const run = async () => {
    const version = seen.versions?.[key.value] ?? '0';
    const check = {key: key.value, ...(value === undefined ? {exists: false} : {version})};
    const delta = isRemoval.value
      ? {remove: [key.value]}
      : {setJson: writeJson(new Map([[key.value, parseJson(text.value)]]))};
    const precondition = {uid: seen.uid ?? '', keys: [check]};
    await call('StateService/UpdateState', {scope, delta, precondition, author: AUTHOR, ...TEXT});
    done();
  };
  const isJson = isRemoval.value || tryJson(text.value) !== undefined;
  const fault = isJson ? '' : 'The value must be JSON: "text" in quotes, a number, {…}, […].';
  const its = {title: name ? 'Change a key' : 'Set a key', address: scope, run, close, fault};
  const area = {rows: 8, spellcheck: false, value: text.value, disabled: isRemoval.value};
  return (
    <Confirm verb="Save" {...its}>
      <p>
        <strong>{shown(name)}</strong> state of the {scopeOf(key.value)}
      </p>
      {!name && <Field label="Key, with its prefix" set={given => (key.value = given)} />}
      <label class="field">
        Value as JSON
        <textarea {...area} onInput={input => (text.value = input.currentTarget.value)} />
      </label>
      {value !== undefined && (
        <Check label="remove the key" value={isRemoval.value} set={on => (isRemoval.value = on)} />
      )}
      <p class="dim">It is refused if the key has changed since it was read.</p>
    </Confirm>
  );
}
