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

/** Makes envelopes of the pieces of a response. */
export class EnvelopeReader {
  #pieces: Uint8Array[] = [];
  #length = 0;
  #wanted = HEADER_BYTES;

  /** Adds a piece, and returns the envelopes that are complete now. */
  push(piece: Uint8Array): Envelope[] {
    this.#pieces.push(piece);
    this.#length += piece.length;
    const envelopes: Envelope[] = [];
    while (this.#length >= this.#wanted) {
      const bytes = this.#joined();
      const length = HEADER_BYTES + new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
      this.#wanted = length;
      if (bytes.length >= length) {
        const text = new TextDecoder().decode(bytes.subarray(HEADER_BYTES, length));
        envelopes.push({text, isEnd: ((bytes[0] ?? 0) & END) !== 0});
        this.#pieces = [bytes.subarray(length)];
        this.#length -= length;
        this.#wanted = HEADER_BYTES;
      }
    }
    return envelopes;
  }

  #joined(): Uint8Array {
    const joined = new Uint8Array(this.#length);
    let end = 0;
    for (const piece of this.#pieces) {
      joined.set(piece, end);
      end += piece.length;
    }
    this.#pieces = [joined];
    return joined;
  }
}
