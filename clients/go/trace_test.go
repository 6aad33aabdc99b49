package sessiond_test

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

const traceparent = "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01"

func TestTraceContext(t *testing.T) {
	before := otel.GetTextMapPropagator()
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, SpanID: trace.SpanID{17, 18, 19, 20, 21, 22, 23, 24},
		TraceFlags: trace.FlagsSampled,
	})
	inSpan := trace.ContextWithSpanContext(t.Context(), span)
	for name, test := range map[string]struct {
		ctx  context.Context
		want string
	}{
		"in a span":                {inSpan, traceparent},
		"outside":                  {t.Context(), ""},
		"with one of the caller's": {metadata.AppendToOutgoingContext(inSpan, "traceparent", "mine"), "mine"},
		"with other metadata":      {metadata.AppendToOutgoingContext(inSpan, "other", "value"), traceparent},
	} {
		t.Run(name, func(t *testing.T) {
			server := startRecorder(t, "tcp", "127.0.0.1:0")
			if errs := callAndWatch(test.ctx, dial(t, server.address)); errs != [2]error{} {
				t.Fatal(errs)
			}
			if got := server.values("traceparent"); !slices.Equal(got, []string{test.want, test.want}) {
				t.Errorf("the server received the traceparents %q", got)
			}
			if name == "with other metadata" && !slices.Equal(server.values("other"), []string{"value", "value"}) {
				t.Errorf("the server received %q", server.values("other"))
			}
		})
	}
}
