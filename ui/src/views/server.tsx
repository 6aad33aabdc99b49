/** The server in a corner. */
export function ServerCorner() {
  return null;
}
