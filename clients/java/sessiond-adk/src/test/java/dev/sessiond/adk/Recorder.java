package dev.sessiond.adk;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;

/** Sees the messages between a service and its server, and can change them. */
final class Recorder implements ClientInterceptor {

  private final List<Message> requests = new CopyOnWriteArrayList<>();
  private final UnaryOperator<Message> edit;

  /** {@code edit} changes requests before they are sent, and responses. */
  Recorder(UnaryOperator<Message> edit) {
    this.edit = edit;
  }

  /** The requests of a type, as the adapter made them. */
  <Q extends Message> List<Q> requests(Class<Q> type) {
    return requests.stream().filter(type::isInstance).map(type::cast).toList();
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<R> listener, Metadata headers) {
        super.start(
            new SimpleForwardingClientCallListener<>(listener) {
              @Override
              public void onMessage(R response) {
                super.onMessage(edited(response));
              }
            },
            headers);
      }

      @Override
      public void sendMessage(Q request) {
        requests.add((Message) request);
        super.sendMessage(edited(request));
      }
    };
  }

  @SuppressWarnings("unchecked")
  private <T> T edited(T message) {
    return (T) edit.apply((Message) message);
  }
}
