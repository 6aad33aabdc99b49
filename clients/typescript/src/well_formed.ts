/**
 * The rule for texts that UTF-8 cannot encode: halves of surrogate pairs.
 *
 * Values and bodies are JSON, and are mended (`json.ts`). Everything else in a
 * request names something. protobuf would send U+FFFD for such a half, and the
 * name of something else: it is refused here, for all requests.
 */

/** @throws TypeError: a text of the message, which is named, cannot be encoded. */
export function refuseIllFormed(message: object, path = ''): void {
  for (const [name, value] of Object.entries(message)) {
    const at = path ? `${path}.${name}` : name;
    if (typeof value === 'string' && !value.isWellFormed()) {
      throw new TypeError(
        `${at} is ${JSON.stringify(value)}. It must not contain half of a surrogate pair.`,
      );
    }
    if (typeof value === 'object' && value !== null) {
      refuseIllFormed(value as object, at);
    }
  }
}
