/**
 * Addresses of servers: `127.0.0.1:50051`, `unix:/run/sessiond.sock`, or a URI.
 */

import {isIPv4, isIPv6} from 'node:net';

export const DEFAULT_PORT = 50051;
const FORMS =
  'Use HOST:PORT, unix:/PATH, sessiond://HOST:PORT, http://HOST:PORT, ' +
  'https://HOST:PORT (TLS) or sessiond:///PATH (a unix socket).';

/** A gRPC target, and what a URI says beside it (`?timeout=5&stale=error`). */
export interface Address {
  readonly target: string;
  readonly tls: boolean;
  readonly settings: ReadonlyMap<string, string>;
}

/**
 * Parses an address.
 *
 * @throws TypeError: not an address. The message lists the valid forms.
 */
export function parseAddress(address: string): Address {
  const text = address.trim();
  const none = new Map<string, string>();
  if (text.startsWith('unix:')) {
    // gRPC itself accepts `unix:/path`, `unix:///path` and `unix:relative`.
    if (!text.slice('unix:'.length).replaceAll('/', '')) {
      throw new TypeError(`'${text}' has no socket path. ${FORMS}`);
    }
    return {target: text, tls: false, settings: none};
  }
  if (!text.includes('://')) {
    return {target: hostAndPort(text, text), tls: false, settings: none};
  }
  return parseUri(text);
}

const URI =
  /^(?<scheme>[^:/?#]*):\/\/(?<host>[^/?#]*)(?<path>[^?#]*)(?:\?(?<query>[^#]*))?(?<fragment>#.*)?$/s;

function parseUri(text: string): Address {
  // Not `URL`: it removes the default ports of http and https.
  const parts = URI.exec(text)?.groups;
  const scheme = parts?.['scheme'] ?? '';
  const host = parts?.['host'] ?? '';
  const path = parts?.['path'] ?? '';
  if (!['sessiond', 'http', 'https'].includes(scheme)) {
    throw new TypeError(`'${text}' has the scheme '${scheme}'. ${FORMS}`);
  }
  if (parts?.['fragment'] !== undefined || host.includes('@')) {
    throw new TypeError(`'${text}' has a user or a fragment. ${FORMS}`);
  }
  const settings = new Map(new URLSearchParams(parts?.['query'] ?? ''));
  const tls = scheme === 'https';
  if (host) {
    if (path && path !== '/') {
      throw new TypeError(`'${text}' has a path after its host. ${FORMS}`);
    }
    return {target: hostAndPort(host, text), tls, settings};
  }
  if (scheme !== 'sessiond' || !path.replaceAll('/', '')) {
    throw new TypeError(
      `'${text}' has neither a host nor a socket path. ${FORMS}`,
    );
  }
  return {target: `unix:${decodeURIComponent(path)}`, tls, settings};
}

/** Whether calls stay on this machine: a Unix socket or a loopback address. */
export function isLocal({target}: Address): boolean {
  const host = target.slice(0, target.lastIndexOf(':')).replace(/^\[|\]$/g, '');
  return (
    target.startsWith('unix:') ||
    host === 'localhost' ||
    (isIPv4(host) && host.startsWith('127.')) ||
    (isIPv6(host) && new URL(`http://[${host}]`).hostname === '[::1]')
  );
}

/** `text` with a port. An IPv6 address needs brackets. `whole` appears in messages. */
function hostAndPort(text: string, whole: string): string {
  const colon = text.endsWith(']') ? -1 : text.lastIndexOf(':');
  const host = colon < 0 ? text : text.slice(0, colon);
  const port = colon < 0 ? String(DEFAULT_PORT) : text.slice(colon + 1);
  const bracketed = host.startsWith('[') && host.endsWith(']');
  if (!host || /[/\s]/.test(text) || (host.includes(':') && !bracketed)) {
    throw new TypeError(`'${whole}' is not an address. ${FORMS}`);
  }
  if (!/^[0-9]+$/.test(port) || Number(port) < 1 || Number(port) > 65535) {
    throw new TypeError(`'${whole}' has the port '${port}'. ${FORMS}`);
  }
  return `${host}:${port}`;
}
