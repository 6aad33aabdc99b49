/** Certificates of a test, and the authority that issues them. */

import {execFileSync} from 'node:child_process';
import {join} from 'node:path';

const NEW = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';

/** An authority with its certificate in the file `ca`. */
export class Authority {
  readonly ca: string;
  readonly #key: string;

  constructor(readonly directory: string) {
    this.ca = join(directory, 'ca.pem');
    this.#key = join(directory, 'ca.key');
    create('authority', this.ca, this.#key);
  }

  /** The files of a certificate for this machine, and of its key. */
  issue(name: string): {cert: string; key: string} {
    const cert = join(this.directory, `${name}.pem`);
    const key = join(this.directory, `${name}.key`);
    create(
      ...([name, cert, key, '-CA', this.ca, '-CAkey', this.#key] as const),
      ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
      ...['-addext', 'basicConstraints=CA:FALSE'],
    );
    return {cert, key};
  }
}

function create(name: string, cert: string, key: string, ...more: string[]) {
  const files = ['-subj', `/CN=${name}`, '-keyout', key, '-out', cert];
  execFileSync(
    'openssl',
    [...NEW.split(' '), '-days', '2', ...files, ...more],
    {
      stdio: 'pipe',
    },
  );
}
