/** A TCP proxy in front of the server that loses responses, and cuts connections or leaves them dead. */

import {once} from 'node:events';
import {connect, createServer, type AddressInfo, type Socket} from 'node:net';

export class Proxy {
  address = '';
  connections = 0;
  lost = 0;
  /** Chunks of data from clients. */
  received = 0;
  /** Pings from clients. */
  pings = 0;
  #losing = 0;
  #meanwhile: (() => Promise<unknown>) | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #dead = new WeakSet<Socket>();
  readonly #listener = createServer(client => this.#accept(client));

  private constructor(readonly server: string) {}

  get openConnections(): number {
    // Of a connection, the client's socket and the server's.
    return this.#sockets.size / 2;
  }

  static async start(server: string): Promise<Proxy> {
    const proxy = new Proxy(server);
    proxy.#listener.listen(0, '127.0.0.1');
    await once(proxy.#listener, 'listening');
    proxy.address = `127.0.0.1:${(proxy.#listener.address() as AddressInfo).port}`;
    return proxy;
  }

  /**
   * Loses the next `count` responses, each with its connection, after the server has applied the calls.
   * `meanwhile` runs after the server's response and before the connection is cut.
   */
  loseResponses(count: number, meanwhile?: () => Promise<unknown>): void {
    this.#losing = count;
    this.#meanwhile = meanwhile;
  }

  /** Loses all data of the present connections without closing them, as when the peer's machine is gone. */
  loseEverything(): void {
    this.#sockets.forEach(socket => this.#dead.add(socket));
  }

  /** Cuts all connections. */
  cut(): void {
    this.#sockets.forEach(socket => socket.resetAndDestroy());
    this.#sockets.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.cut();
  }

  #accept(client: Socket): void {
    this.connections++;
    const [host, port] = this.server.split(':');
    const upstream = connect(Number(port), host);
    for (const [socket, peer] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        peer.destroy();
      });
    }
    client.on('data', data => {
      this.received++;
      this.pings += frames(data).filter(isPing).length;
      if (!this.#dead.has(client)) {
        upstream.write(data);
      }
    });
    upstream.on('data', data => {
      if (this.#dead.has(upstream)) {
        return;
      }
      if (this.#losing > 0 && frames(data).some(beginsResponse)) {
        this.#losing--;
        this.lost++;
        upstream.pause();
        void Promise.resolve(this.#meanwhile?.()).finally(() =>
          client.resetAndDestroy(),
        );
      } else {
        client.write(data);
      }
    });
  }
}

interface Frame {
  readonly type: number;
  readonly flags: number;
}

/** The HTTP/2 frames in `data`, which begins with one or with the preface of a client. */
function frames(data: Buffer): Frame[] {
  const found: Frame[] = [];
  let at = data.subarray(0, 3).toString() === 'PRI' ? 24 : 0;
  for (; at + 9 <= data.length; at += 9 + data.readUIntBE(at, 3)) {
    found.push({type: data[at + 3]!, flags: data[at + 4]!});
  }
  return found;
}

/** A frame of headers. All other frames of a server belong to the connection. */
function beginsResponse({type}: Frame): boolean {
  return type === 1;
}

/** A ping that is no answer to one. */
function isPing({type, flags}: Frame): boolean {
  return type === 6 && flags === 0;
}
