/** Messages of a stream, as the Connect protocol frames them: flags, length, JSON. */

const HEADER_BYTES = 5;
/** The flag of the last message, which has no content but an error. */
const END = 2;

export interface Envelope {
  text: string;
  isEnd: boolean;
}

export function writeEnvelope(text: string): Uint8Array<ArrayBuffer> {
  const content = new TextEncoder().encode(text);
  const envelope = new Uint8Array(HEADER_BYTES + content.length);
  new DataView(envelope.buffer).setUint32(1, content.length);
  envelope.set(content, HEADER_BYTES);
  return envelope;
}

/** Joins the pieces of a response to envelopes. */
export class EnvelopeReader {
  #pieces: Uint8Array[] = [];
  #length = 0;

  /** Adds a piece, and returns the envelopes that are complete now. */
  push(piece: Uint8Array): Envelope[] {
    this.#pieces.push(piece);
    this.#length += piece.length;
    const envelopes: Envelope[] = [];
    for (let header = this.#peek(HEADER_BYTES); header; header = this.#peek(HEADER_BYTES)) {
      const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
      const whole = this.#peek(HEADER_BYTES + view.getUint32(1));
      if (!whole) {
        break;
      }
      this.#drop(whole.length);
      const text = new TextDecoder().decode(whole.subarray(HEADER_BYTES));
      envelopes.push({text, isEnd: (view.getUint8(0) & END) !== 0});
    }
    return envelopes;
  }

  /** The first bytes, if there are so many. Pieces are joined only then. */
  #peek(count: number): Uint8Array | undefined {
    if (this.#length < count) {
      return undefined;
    }
    if ((this.#pieces[0]?.length ?? 0) < count) {
      const joined = new Uint8Array(this.#length);
      let end = 0;
      for (const piece of this.#pieces) {
        joined.set(piece, end);
        end += piece.length;
      }
      this.#pieces = [joined];
    }
    return this.#pieces[0]?.subarray(0, count);
  }

  #drop(count: number): void {
    const rest = this.#pieces[0]?.subarray(count) ?? new Uint8Array();
    this.#pieces[0] = rest;
    this.#length -= count;
  }
}
