/** Dialogs of changes. Each names what it changes, and does nothing before it is confirmed. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useEffect, useRef} from 'preact/hooks';
import {attempt, call, TEXT} from '../api.js';
import type {Scope, Session} from '../contract.js';
import {parseJson, tryJson, writeJson} from '../json.js';
import {go, routeTo, toSession} from '../route.js';
import type {Change, SessionModel} from '../session.js';
import {readState, scopeOf} from '../state.js';
import {countText} from '../text.js';
import {Button, Check, checked, Field, Notice, shown} from './common.js';

/** Author of the page's changes in the log. */
const AUTHOR = 'inspector';

interface ConfirmProps {
  title: string;
  /** The text of the button. */
  verb: string;
  /** What is changed. */
  address: Scope;
  /** Why it cannot be confirmed yet. */
  fault: string | false;
  run: () => Promise<unknown>;
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
    await attempt(error, run);
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

/** What each change says: its title, the label of a field, and its text. */
function wordsOf({kind, sequence}: Change, last: number) {
  const own = 'the session’s own state will be';
  return {
    fork: {
      ...{verb: 'Fork', title: `Fork at event ${sequence}`},
      field: 'Id of the new session, or nothing',
      text: `A new session gets the events up to ${sequence} and the state as of then.`,
    },
    rewind: {
      ...{verb: 'Rewind', title: `Rewind to event ${sequence}`, field: ''},
      text: `${countText(last - sequence, 'event')} will be hidden, and ${own} as it was.
        A rewind can be rewound. It is refused if an event is appended meanwhile.`,
    },
    delete: {
      ...{verb: 'Delete', title: 'Delete the session', field: 'Id of the session'},
      text: `${countText(last, 'event')} and ${own} gone for good.`,
    },
  }[kind];
}

/** Changes the session that is shown, and no later one with the same id. */
export function ChangeDialog({change, model}: {change: Change; model: SessionModel}) {
  const {kind, sequence} = change;
  const {address, session, asked} = model;
  const typed = useSignal('');
  const last = useRef(model.newest.value).current;
  const [key, uid] = [address, session.value?.uid ?? ''];
  const runs = {
    fork: async () => {
      const request = {key, upToSequence: String(sequence), sessionId: typed.value};
      const fork = call('SessionService/ForkSession', {...request, precondition: {uid}, ...TEXT});
      return (await fork).session?.key;
    },
    rewind: async () => {
      const precondition = {uid, expectedSequence: String(last)};
      const request = {key, toSequence: String(sequence), author: AUTHOR, precondition, ...TEXT};
      await call('SessionService/RewindSession', request);
    },
    delete: async () => {
      await call('SessionService/DeleteSession', {key, precondition: {uid}});
    },
  };
  const close = () => (asked.value = undefined);
  const run = async () => {
    const fork = await runs[kind]();
    // The dialog may have been left meanwhile.
    if (asked.value === change) {
      close();
      if (fork) {
        go(toSession(fork));
      } else if (kind === 'delete') {
        go(routeTo('sessions', address.appName), true);
      }
    }
  };
  const {field, text, ...words} = wordsOf(change, last);
  const isTyped = kind !== 'delete' || typed.value === address.sessionId;
  const fault = !isTyped && 'Type the id of the session to confirm.';
  return (
    <Confirm {...{...words, address, fault, run, close}}>
      <p>{text}</p>
      {field && <Field label={field} set={text => (typed.value = text)} />}
    </Confirm>
  );
}

interface EditProps {
  scope: Scope;
  /** The key; empty if it is to be typed. */
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
    close();
    done();
  };
  const isJson = isRemoval.value || tryJson(text.value) !== undefined;
  const fault = !isJson && 'The value must be JSON: "text" in quotes, a number, {…}, […].';
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
      {value !== undefined && <Check label="remove the key" {...checked(isRemoval)} />}
      <p class="dim">It is refused if the key has changed since it was read.</p>
    </Confirm>
  );
}
