/** Conversion of sessions, and of ADK's event filters. */

import {create} from '@bufbuild/protobuf';
import type {Event, GetSessionConfig, Session} from '@google/adk';
import {joinCompactions} from './compaction.js';
import {decodeEvent} from './events.js';
import {
  EventSelectionSchema,
  type EventSelection,
} from './gen/sessiond/v1/session_service_pb.js';
import type {
  Event as StoredEvent,
  Session as StoredSession,
} from './gen/sessiond/v1/types_pb.js';
import {decodeState, storedValues, type StoredValue} from './state.js';
import {EARLIEST_MS, LATEST_MS, millisOf, timestampOf} from './times.js';

const INT32_MAX = 2 ** 31 - 1;

/**
 * The events that `config` selects.
 *
 * ADK's rules: without a config, or with 0 in a field, nothing is filtered.
 * With both, the newest of the events that are not older.
 *
 * @throws RangeError: `numRecentEvents` is negative.
 */
export function selectEvents(config: GetSessionConfig = {}): EventSelection {
  const selection = create(EventSelectionSchema);
  const recent = config.numRecentEvents;
  if (recent !== undefined && recent < 0) {
    throw new RangeError(
      `numRecentEvents is ${recent}. It must not be negative.`,
    );
  }
  if (recent && recent <= INT32_MAX) {
    selection.recent = Math.trunc(recent);
  }
  const after = config.afterTimestamp;
  if (after && after > LATEST_MS) {
    selection.recent = 0;
  } else if (after && after > EARLIEST_MS) {
    selection.afterTime = timestampOf(after);
  }
  return selection;
}

/** The JSON text of the state of a stored session; undefined if it came without. */
export function stateTextOf(stored: StoredSession): string | undefined {
  const {stateForm} = stored;
  return stateForm.case === 'stateJson' ? stateForm.value : undefined;
}

/** The values of the state of a stored session, by key; undefined if it came without. */
export function storedValuesOf(
  stored: StoredSession,
): Map<string, StoredValue> | undefined {
  const text = stateTextOf(stored);
  return text === undefined ? undefined : storedValues(text, stored.versions);
}

/** The ADK session. `lastUpdateTime` is the time of the newest event, or of the creation. */
export function decodeSession(
  stored: StoredSession,
  storedEvents: readonly StoredEvent[] = [],
): Session {
  const events: Event[] = storedEvents.map(decodeEvent);
  joinCompactions(events);
  const {lastSequence} = stored;
  const newest = events.at(-1);
  // An event has its time as the original number; the stored session has it rounded to the nanosecond.
  const lastUpdateTime =
    newest && storedEvents.at(-1)?.sequence === lastSequence
      ? newest.timestamp
      : millisOf(stored.lastEventTime);
  const {appName = '', userId = '', sessionId = ''} = stored.key ?? {};
  const address = {appName, userId, sessionId};
  return {
    id: sessionId,
    appName,
    userId,
    state: decodeState(
      storedValuesOf(stored) ?? new Map(),
      {address, sequence: Number(lastSequence), uid: stored.uid},
      events.map(({id}) => id),
    ),
    events,
    lastUpdateTime,
  };
}
