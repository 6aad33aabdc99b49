/** The state of an application or of a user, as it is now. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {isReadOnly} from '../api.js';
import {mayWrite} from '../rights.js';
import {go, type Route} from '../route.js';
import {wholeState} from '../session.js';
import {compare, readState} from '../state.js';
import {follow} from '../watch.js';
import {Button, Filter, Notice, useRead} from './common.js';
import {EditDialog} from './dialogs.js';
import {History} from './history.js';
import {Keys} from './keys.js';
import {Currency} from './session_head.js';

export function SharedStateView({route}: {route: Route}) {
  const {appName, userId, key} = route;
  const scope = {appName, userId};
  const filter = useSignal('');
  const edited = useSignal<string | undefined>(undefined);
  const version = useSignal(0);
  const change = () => {
    version.value += 1;
  };
  const {value, message} = useRead(abort => wholeState(scope, abort), [version.value]);
  // The right to change an application's state cannot be asked for without a change.
  const may = useRead(async () => !userId || mayWrite({...scope, sessionId: '-'}), []).value;
  useEffect(() => follow(scope, it => (it.stateChange || it.caughtUp) && change()), []);
  const edit = may && !isReadOnly.value ? (name: string) => (edited.value = name) : undefined;
  const values = readState(value?.stateJson);
  const close = () => (edited.value = undefined);
  const done = () => {
    close();
    change();
  };
  const shownKeys = {entries: compare(values, values), filter: filter.value, onlyChanges: false};
  return (
    <div class="page">
      <Notice text={message} />
      <Currency reload={change} />
      {key !== undefined ? (
        <History
          {...{scope, name: key, version: version.value}}
          close={() => go({...route, key: undefined})}
        />
      ) : (
        <section aria-label="State">
          <div class="pane-tools">
            <Filter label="Filter keys and values" set={text => (filter.value = text)} />
            {edit && <Button label="Set a key…" run={() => edit('')} />}
          </div>
          <Keys
            {...{...shownKeys, edit, scopes: userId ? ['user', 'application'] : ['application']}}
            history={name => go({...route, key: name})}
          />
        </section>
      )}
      {edited.value !== undefined && value && (
        <EditDialog {...{scope, name: edited.value, seen: value, close, done}} />
      )}
    </div>
  );
}
