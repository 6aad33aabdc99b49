/** The state of an application or of a user, as it is now. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {isReadOnly} from '../api.js';
import {mayWrite} from '../rights.js';
import {go, type Route} from '../route.js';
import {wholeState} from '../session.js';
import {compare, readState} from '../state.js';
import {follow} from '../watch.js';
import {Filter, Notice, useRead} from './common.js';
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
  const {value, message} = useRead(abort => wholeState(scope, abort), [version.value]);
  // The right to change an application's state cannot be asked for without a change.
  const asked = useRead(async () => !userId || mayWrite({...scope, sessionId: '-'}), []);
  useEffect(
    () =>
      follow(scope, ({stateChange, caughtUp}) => {
        version.value += stateChange || caughtUp ? 1 : 0;
      }),
    [],
  );
  const mayEdit = asked.value.value && !isReadOnly.value;
  const edit = mayEdit ? (name: string) => (edited.value = name) : undefined;
  const values = readState(value.value?.stateJson);
  const close = () => (edited.value = undefined);
  const done = () => {
    close();
    version.value += 1;
  };
  return (
    <div class="page shared">
      <Notice>{message}</Notice>
      <Currency reload={() => (version.value += 1)} />
      {key !== undefined ? (
        <History
          {...{scope, name: key, version: version.value}}
          close={() => go({...route, key: undefined})}
        />
      ) : (
        <section aria-label="State">
          <div class="pane-tools">
            <Filter label="Filter keys and values" set={text => (filter.value = text)} />
            {edit && <button onClick={() => edit('')}>Set a key…</button>}
          </div>
          <Keys
            {...{entries: compare(values, values), filter: filter.value, onlyChanges: false, edit}}
            scopes={userId ? ['user', 'application'] : ['application']}
            history={name => go({...route, key: name})}
          />
        </section>
      )}
      {edited.value !== undefined && value.value && (
        <EditDialog {...{scope, name: edited.value, seen: value.value, close, done}} />
      )}
    </div>
  );
}
