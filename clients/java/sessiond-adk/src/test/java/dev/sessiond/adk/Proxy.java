package dev.sessiond.adk;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/** A TCP proxy in front of the server that loses responses and cuts connections. */
final class Proxy implements AutoCloseable {

  private final String server;
  private final ServerSocket listener;
  private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
  private final Set<Socket> dead = ConcurrentHashMap.newKeySet();
  private final AtomicInteger losing = new AtomicInteger();
  final AtomicInteger lost = new AtomicInteger();
  final AtomicInteger connections = new AtomicInteger();

  /** A permit for each connection that has ended. */
  final Semaphore closed = new Semaphore(0);

  Proxy(String server) throws IOException {
    this.server = server;
    this.listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    start(this::accept);
  }

  String address() {
    return "127.0.0.1:" + listener.getLocalPort();
  }

  /** Loses the next responses, each with its connection, after the server has applied the calls. */
  void loseResponses(int count) {
    losing.set(count);
  }

  /** Forwards nothing more on the present connections, which stay open. */
  void loseEverything() {
    dead.addAll(sockets);
  }

  void cut() {
    sockets.forEach(Proxy::abort);
  }

  @Override
  public void close() throws IOException {
    listener.close();
    cut();
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket client = listener.accept();
        sockets.add(client);
        connections.incrementAndGet();
        Socket upstream = connect();
        if (upstream == null) {
          abort(client);
          continue;
        }
        sockets.add(upstream);
        start(() -> forward(client, upstream, false));
        start(() -> forward(upstream, client, true));
      } catch (IOException e) {
        // The proxy is closed.
        return;
      }
    }
  }

  /** Null if the server is away. */
  private @Nullable Socket connect() {
    int colon = server.lastIndexOf(':');
    try {
      return new Socket(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1)));
    } catch (IOException e) {
      return null;
    }
  }

  private void forward(Socket source, Socket sink, boolean fromServer) {
    byte[] buffer = new byte[65_536];
    try (source;
        sink) {
      InputStream in = source.getInputStream();
      OutputStream out = sink.getOutputStream();
      for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
        if (dead.contains(source)) {
          continue;
        }
        if (fromServer && losing.get() > 0 && hasHeadersFrame(buffer, count)) {
          losing.decrementAndGet();
          lost.incrementAndGet();
          break;
        }
        out.write(buffer, 0, count);
      }
    } catch (IOException e) {
      // The other direction has closed it.
    } finally {
      sockets.remove(source);
      sockets.remove(sink);
      if (!fromServer) {
        closed.release();
      }
    }
  }

  /** Whether HTTP/2 frames of a server begin a response. All others belong to the connection. */
  private static boolean hasHeadersFrame(byte[] data, int count) {
    int at = 0;
    while (count - at >= 9) {
      int length = (data[at] & 0xff) << 16 | (data[at + 1] & 0xff) << 8 | (data[at + 2] & 0xff);
      if (data[at + 3] == 1) {
        return true;
      }
      at += 9 + length;
    }
    return false;
  }

  private static void start(Runnable task) {
    Thread thread = new Thread(task, "proxy");
    thread.setDaemon(true);
    thread.start();
  }

  private static void abort(Socket socket) {
    try {
      socket.close();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}
