/** Whether the caller may change a user's sessions. */

import {ApiError, call, hasIdentities, isReadOnly} from './api.js';
import type {Address} from './contract.js';

/** No invocation has it, so that ending it changes nothing. */
const NO_INVOCATION = 'sessiond-inspector';

/**
 * Asks the server by a call that needs the right to write and has no effect, so that the page does
 * not offer what would be refused.
 */
export async function mayWrite(address: Address): Promise<boolean> {
  if (isReadOnly.value || !hasIdentities.value) {
    return !isReadOnly.value;
  }
  const request = {key: address, invocationId: NO_INVOCATION};
  const answer = call('StateService/EndInvocation', request);
  return answer.then(
    () => true,
    (error: unknown) => !(error instanceof ApiError) || error.code !== 'permission_denied',
  );
}
