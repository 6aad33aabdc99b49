/** State by scope, and what differs between two states. */

import {objectOf, sameJson, tryJson, type Json, type JsonObject} from './json.js';

export type ScopeName = 'session' | 'user' | 'application';

/** The scope of a key, by its prefix. */
export function scopeOf(key: string): ScopeName {
  if (key.startsWith('app:')) {
    return 'application';
  }
  return key.startsWith('user:') ? 'user' : 'session';
}

/** The keys and values of state that came as text. */
export function readState(text: string | undefined): JsonObject {
  return objectOf(tryJson(text));
}

/** A key of a state, and what it was before. */
export interface Entry {
  key: string;
  value: Json | undefined;
  before: Json | undefined;
  change: 'added' | 'changed' | 'removed' | 'same';
}

/** The keys of both states in the order of their names. */
export function compare(before: JsonObject, after: JsonObject): Entry[] {
  const keys = [...new Set([...before.keys(), ...after.keys()])].sort();
  return keys.map(key => entryOf(key, before.get(key), after.get(key)));
}

function entryOf(key: string, before: Json | undefined, value: Json | undefined): Entry {
  if (before === undefined || value === undefined) {
    return {key, value, before, change: before === undefined ? 'added' : 'removed'};
  }
  return {key, value, before, change: sameJson(before, value) ? 'same' : 'changed'};
}
