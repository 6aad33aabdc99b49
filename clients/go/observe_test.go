package sessiond_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// broken is a propagator and a log handler of an application that go wrong.
type broken struct {
	propagation.TraceContext
	set func(propagation.TextMapCarrier)
}

func (b broken) Inject(_ context.Context, to propagation.TextMapCarrier) { b.set(to) }

func (broken) Enabled(context.Context, slog.Level) bool  { return true }
func (broken) Handle(context.Context, slog.Record) error { panic("the handler is broken") }
func (b broken) WithAttrs([]slog.Attr) slog.Handler      { return b }
func (b broken) WithGroup(string) slog.Handler           { return b }

// TestBrokenPropagator makes calls and watches with propagators that fail or write what gRPC cannot send.
func TestBrokenPropagator(t *testing.T) {
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	for name, set := range map[string]func(propagation.TextMapCarrier){
		"panics":          func(propagation.TextMapCarrier) { panic("the propagator is broken") },
		"panics later":    func(to propagation.TextMapCarrier) { to.Set("good", "yes"); panic("the propagator is broken") },
		"no name":         func(to propagation.TextMapCarrier) { to.Set("good", "yes"); to.Set("", "x") },
		"a bad name":      func(to propagation.TextMapCarrier) { to.Set("good", "yes"); to.Set("bad name", "x") },
		"a name of HTTP":  func(to propagation.TextMapCarrier) { to.Set("good", "yes"); to.Set(":path", "x") },
		"a name of gRPC":  func(to propagation.TextMapCarrier) { to.Set("good", "yes"); to.Set("grpc-timeout", "x") },
		"a line break":    func(to propagation.TextMapCarrier) { to.Set("good", "yes"); to.Set("baggage", "a\nb") },
		"a text of bytes": func(to propagation.TextMapCarrier) { to.Set("good", "yes"); to.Set("baggage", "\xff\u00fc") },
	} {
		t.Run(name, func(t *testing.T) {
			otel.SetTextMapPropagator(broken{set: set})
			server := startRecorder(t, "tcp", "127.0.0.1:0")
			if errs := callAndWatch(t.Context(), dial(t, server.address)); errs != [2]error{} {
				t.Fatal(errs)
			}
			want := []string{"yes", "yes"}
			if name == "panics" {
				want = []string{"", ""}
			}
			if got := server.values("good"); !slices.Equal(got, want) {
				t.Errorf("the server received %q", got)
			}
		})
	}
}

// TestBrokenLogger reads an event that warns and stores a value that warns.
func TestBrokenLogger(t *testing.T) {
	server := startServer(t, "memory:")
	service := connect(t, server, sessiond.WithLogger(slog.New(broken{})))
	create(t, service, "s", map[string]any{"k": "\xff"})
	raw(t, server, "s", `{"content":"just text"}`, `{}`)
	if got := get(t, service, "s").Events().Len(); got != 1 {
		t.Errorf("%d events", got)
	}
}
