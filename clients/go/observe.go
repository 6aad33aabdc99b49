package sessiond

import (
	"context"
	"log/slog"
)

// What only observes never ends a call: a panic in a log handler or in a propagator of traces is contained.

// quietHandler is a log handler whose panics are contained.
type quietHandler struct{ to slog.Handler }

var _ slog.Handler = quietHandler{}

func (h quietHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer contain()
	return h.to.Enabled(ctx, level)
}

func (h quietHandler) Handle(ctx context.Context, record slog.Record) error {
	defer contain()
	return h.to.Handle(ctx, record)
}

func (h quietHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return quietHandler{h.to.WithAttrs(attributes)}
}

func (h quietHandler) WithGroup(name string) slog.Handler { return quietHandler{h.to.WithGroup(name)} }

func contain() { _ = recover() }
