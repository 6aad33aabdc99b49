package sessiond

import (
	"context"
	"strings"

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
	inject(ctx, sent)
	return metadata.NewOutgoingContext(ctx, sent)
}

func inject(ctx context.Context, sent metadata.MD) {
	defer contain()
	otel.GetTextMapPropagator().Inject(ctx, carrier(sent))
}

// carrier is metadata that keeps what the caller has set.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set leaves out what gRPC would refuse the call for.
func (c carrier) Set(key, value string) {
	if isHeader(key, value) && len(metadata.MD(c).Get(key)) == 0 {
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

// isHeader reports whether gRPC can send a name with a text. Names that begin with grpc- are its own.
func isHeader(name, value string) bool {
	name = strings.ToLower(name)
	badName := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.", c))
	}
	badValue := func(c rune) bool { return c < ' ' || c > '~' }
	return name != "" && !strings.HasPrefix(name, "grpc-") && !strings.ContainsFunc(name, badName) &&
		!strings.ContainsFunc(value, badValue)
}
