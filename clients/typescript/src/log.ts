/** Warnings to ADK's logger. The application can replace it, and its failure must not end a call. */

import {getLogger} from '@google/adk';

export function warn(message: string, ...more: unknown[]): void {
  try {
    getLogger().warn(message, ...more);
  } catch {
    // There is no other place to report it to.
  }
}

/** Names the keys of an answer whose stored values are damaged: the server leaves them out. */
export function warnOfDamage(where: string, keys: readonly string[]): void {
  if (keys.length > 0) {
    warn(`${where}: omitted keys with damaged values: ${keys.join(', ')}`);
  }
}
