package sessiond

import (
	"context"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// withTraceContext sends the trace context of a call's context, with the propagator that the application has set.
func withTraceContext() []grpc.DialOption {
	unary := func(
		ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		return invoke(injected(ctx), method, request, response, conn, options...)
	}
	stream := func(
		ctx context.Context, description *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return open(injected(ctx), description, conn, method, options...)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

func injected(ctx context.Context) context.Context {
	sent, _ := metadata.FromOutgoingContext(ctx)
	if sent == nil {
		sent = metadata.MD{}
	}
	otel.GetTextMapPropagator().Inject(ctx, carrier(sent))
	return metadata.NewOutgoingContext(ctx, sent)
}

// carrier is metadata that keeps what the caller has set.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (c carrier) Set(key, value string) {
	if len(metadata.MD(c).Get(key)) == 0 {
		metadata.MD(c).Set(key, value)
	}
}

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
