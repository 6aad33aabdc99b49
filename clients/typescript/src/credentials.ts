/** TLS files and token files, from options or from the environment variables of the `sessiond` command. */

import {credentials, type ChannelCredentials} from '@grpc/grpc-js';
import {readFileSync, statSync} from 'node:fs';
import {isLocal, type Address} from './address.js';

/** Files of a service. The default of each is an environment variable. */
export interface CredentialFiles {
  /** PEM file with the authority of the server's certificate, for `https://`. Default: SESSIOND_TLS_CA, else those of Node. */
  readonly tlsCa?: string;
  /** PEM file with the client's certificate, for a server that asks for one. Default: SESSIOND_CLIENT_TLS_CERT. */
  readonly tlsCert?: string;
  /** PEM file with the private key of that certificate. Default: SESSIOND_CLIENT_TLS_KEY. */
  readonly tlsKey?: string;
  /**
   * File with a token that is sent with every call. It is read again when it changes. Without TLS the address must be a
   * loopback address or a Unix socket. Default: SESSIOND_TOKEN_FILE.
   */
  readonly tokenFile?: string;
}

const VARIABLES: Readonly<Record<keyof CredentialFiles, string>> = {
  tlsCa: 'SESSIOND_TLS_CA',
  tlsCert: 'SESSIOND_CLIENT_TLS_CERT',
  tlsKey: 'SESSIOND_CLIENT_TLS_KEY',
  tokenFile: 'SESSIOND_TOKEN_FILE',
};

/** Long enough that the file costs nothing, short enough for tokens that are replaced minutes before they expire. */
const CHECK_MS = 1_000;

/** A path, and the option or variable that sets it, for messages. */
interface File {
  readonly path: string;
  readonly source: string;
}

function fileOf(
  files: CredentialFiles,
  option: keyof CredentialFiles,
): File | undefined {
  const given = files[option];
  const variable = VARIABLES[option];
  const path = given ?? process.env[variable];
  return path ? {path, source: given ? option : variable} : undefined;
}

function read({path, source}: File): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new TypeError(`${source}: ${String(error)}`, {cause: error});
  }
}

/**
 * TLS for an https address, else none.
 *
 * @throws TypeError: TLS files for an address without TLS, a certificate without its key, or a file that cannot be read.
 */
export function channelCredentials(
  {target, tls}: Address,
  files: CredentialFiles,
): ChannelCredentials {
  const ca = fileOf(files, 'tlsCa');
  const cert = fileOf(files, 'tlsCert');
  const key = fileOf(files, 'tlsKey');
  const used = ca ?? cert ?? key;
  if (!tls && used) {
    throw new TypeError(
      `${used.source} needs TLS, and ${target} has none. Use https://HOST:PORT.`,
    );
  }
  if (!tls) {
    return credentials.createInsecure();
  }
  if (!cert !== !key) {
    throw new TypeError('tlsCert and tlsKey belong together. Set both.');
  }
  const contents = [ca, key, cert].map(file => (file ? read(file) : null));
  try {
    return credentials.createSsl(...contents);
  } catch (error) {
    // Node names neither the file nor the option.
    const sources = [ca, cert, key].flatMap(file => file?.source ?? []);
    throw new TypeError(`${sources.join(', ')}: ${String(error)}`, {
      cause: error,
    });
  }
}

/**
 * The token of the service's file, if it has one.
 *
 * @throws TypeError: the token would cross a network unencrypted, or the file has no token.
 */
export function tokenFile(
  address: Address,
  files: CredentialFiles,
  encrypted: boolean,
): TokenFile | undefined {
  const file = fileOf(files, 'tokenFile');
  if (file && !encrypted && !isLocal(address)) {
    throw new TypeError(
      `Refusing to send a token to ${address.target} without TLS. Use https://HOST:PORT.`,
    );
  }
  return file && new TokenFile(file);
}

/** The token in a file. The file is read again after it has changed. */
export class TokenFile {
  readonly #file: File;
  readonly #now: () => number;
  #checked: number;
  #modified = NaN;
  #token = '';

  /** @throws TypeError: the file cannot be read, or has no token. */
  constructor(file: File, now: () => number = () => performance.now()) {
    this.#file = file;
    this.#now = now;
    this.#checked = now();
    this.#readIfChanged();
  }

  /** The token. Looks at the file at most once a second. If it cannot be read, the last token stays. */
  token(): string {
    if (this.#now() - this.#checked >= CHECK_MS) {
      this.#checked = this.#now();
      try {
        this.#readIfChanged();
      } catch (error) {
        process.emitWarning(
          `Failed to read the token file again, the last token stays: ${String(error)}`,
        );
      }
    }
    return this.#token;
  }

  #readIfChanged(): void {
    const {path, source} = this.#file;
    const modified = statSync(path, {throwIfNoEntry: false})?.mtimeMs;
    if (modified === this.#modified) {
      return;
    }
    const token = read(this.#file).toString('utf8').trim();
    if (!/^[!-~]+$/.test(token)) {
      throw new TypeError(
        `${source}: '${path}' has no token. It must have one line of visible ASCII.`,
      );
    }
    this.#token = token;
    // Only now, so that a file that was caught half written is read again.
    this.#modified = modified ?? NaN;
  }
}
