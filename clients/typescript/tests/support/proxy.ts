/** A TCP proxy in front of the server that loses responses and cuts connections. */

import {once} from 'node:events';
import {connect, createServer, type AddressInfo, type Socket} from 'node:net';

export class Proxy {
  address = '';
  connections = 0;
  lost = 0;
  #losing = 0;
  #meanwhile: (() => Promise<unknown>) | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #listener = createServer(client => this.#accept(client));

  private constructor(readonly server: string) {}

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
    client.on('data', data => upstream.write(data));
    upstream.on('data', data => {
      if (this.#losing > 0 && hasHeadersFrame(data)) {
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

/** Whether HTTP/2 frames of a server begin a response. All other frames belong to the connection. */
function hasHeadersFrame(data: Buffer): boolean {
  for (let at = 0; at + 9 <= data.length; at += 9 + data.readUIntBE(at, 3)) {
    if (data[at + 3] === 1) {
      return true;
    }
  }
  return false;
}
