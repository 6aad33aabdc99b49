package sessiond

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

const (
	// Three of the server's heartbeats, which come every 10 seconds.
	watchIdle        = 30 * time.Second
	defaultReconnect = time.Minute
)

// WatchItem is a [Snapshot], [Appended], [Changed], [CaughtUp] or [Deleted].
type WatchItem interface {
	// Position returns the cursor right after the item, from which another watch can resume.
	Position() string
}

// Cursor is an opaque position in a watch.
type Cursor string

// Position returns the cursor as text.
func (c Cursor) Position() string { return string(c) }

// Snapshot is the state at the start, with prefixed keys, and the sequence of the session's newest event.
type Snapshot struct {
	Cursor
	State        map[string]any
	LastSequence int64
	// UID is that of [Key].
	UID string
}

// Appended is an event of the session; the marker of a rewind is one.
type Appended struct {
	Cursor
	StoredEvent
}

// Changed is a change of user or application state by another session or by [Service.UpdateState].
type Changed struct {
	Cursor
	Values     map[string]any
	Removed    []string
	CommitTime time.Time
}

// CaughtUp tells that everything that was stored before the watch has been delivered. It comes once.
type CaughtUp struct{ Cursor }

// Deleted tells that the session was deleted or has expired. The watch ends.
type Deleted struct {
	Cursor
	// UID is that of [Key].
	UID string
}

// WatchStart is the start of a watch without a cursor.
type WatchStart int

const (
	// FromSnapshot starts with the current state, then what follows it without a gap. It is the default.
	FromSnapshot WatchStart = iota
	// FromBeginning starts with the first event of the session.
	FromBeginning
	// FromNow starts with the next change.
	FromNow
)

// WatchOptions configure a watch.
type WatchOptions struct {
	// Resume is the cursor to go on after; it overrides Start.
	Resume string
	Start  WatchStart
	// Reconnect is how long the server may be away before the watch fails; 0: one minute.
	Reconnect time.Duration
}

// Watch yields the committed changes of a session, a user or an application: every event once, in order; of wider scopes
// at least the newest values.
//
// When the connection breaks, the stream ends or the server restarts, the watch resumes after its last item, without gap
// or repetition; so it does with a new token when its own expires or is revoked. It ends after [Deleted], when the loop
// is left, or with an error: that of ctx, [ErrClosed], [ErrNotFound], [ErrInvalid] (BAD_CURSOR), CURSOR_OF_OTHER_STORE, or
// [ErrUnavailable] if the server is away for too long.
//
// A service may have as many watches as the server allows: it opens a further connection for every 200 of them.
func (s *Service) Watch(ctx context.Context, scope Scope, options WatchOptions) iter.Seq2[WatchItem, error] {
	return func(yield func(WatchItem, error) bool) {
		target, err := scope.encode()
		if err != nil {
			yield(nil, err)
			return
		}
		if options.Start < FromSnapshot || options.Start > FromNow {
			yield(nil, fmt.Errorf("sessiond: unknown start %d of a watch", options.Start))
			return
		}
		if refused := checkText(&pb.WatchRequest{Scope: target, Cursor: options.Resume}); refused != nil {
			yield(nil, fmt.Errorf("watch: %w", refused))
			return
		}
		calls, end, err := s.client.conns.forWatch()
		if err != nil {
			yield(nil, fmt.Errorf("watch: %w", err))
			return
		}
		defer end()
		w := &watch{service: s, calls: calls, scope: target, options: options, cursor: options.Resume}
		if w.options.Reconnect <= 0 {
			w.options.Reconnect = defaultReconnect
		}
		if err := w.run(ctx, yield); err != nil {
			yield(nil, err)
		}
	}
}

// watch is a running watch, over one stream after the other.
type watch struct {
	service  *Service
	calls    pb.WatchServiceClient
	scope    *pb.Scope
	options  WatchOptions
	cursor   string
	caughtUp bool
	// received tells that the newest stream has sent a message.
	received bool
	failed   int
	// failingSince is set while failed is not 0.
	failingSince time.Time
}

// run returns nil if the watch is over or yield has returned false.
func (w *watch) run(ctx context.Context, yield func(WatchItem, error) bool) error {
	for {
		over, err := w.stream(ctx, yield)
		if over {
			return nil
		}
		if err := w.backOff(ctx, err); err != nil {
			return err
		}
	}
}

// stream reads one stream to its end. over tells that the watch must not go on; else err is why the stream ended.
func (w *watch) stream(ctx context.Context, yield func(WatchItem, error) bool) (over bool, err error) {
	client := w.service.client
	w.received = false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A stream that is silent for too long, or that Close ends, is cancelled.
	idle := time.AfterFunc(client.timeout, cancel)
	defer idle.Stop()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-client.closing:
			cancel()
		case <-done:
		}
	}()

	request := &pb.WatchRequest{Scope: w.scope, Cursor: w.cursor, Start: pb.WatchStart(w.options.Start + 1), JsonForm: asText}
	stream, err := w.calls.Watch(withAffinity(ctx, request), request)
	for err == nil {
		var message *pb.WatchResponse
		if message, err = stream.Recv(); err != nil {
			break
		}
		idle.Stop()
		w.received = true
		w.failed = 0
		// A message without a cursor leaves the position where it was.
		if message.Cursor != "" {
			w.cursor = message.Cursor
		}
		item, decodeErr := w.decode(ctx, message)
		if decodeErr != nil {
			yield(nil, decodeErr)
			return true, nil
		}
		if item != nil && !yield(item, nil) {
			return true, nil
		}
		if _, deleted := item.(Deleted); deleted {
			return true, nil
		}
		// The consumer's own time does not count.
		idle.Reset(watchIdle)
	}
	if err == io.EOF {
		// Only a Deleted ends a watch. A proxy may end a stream without it.
		err = status.Error(codes.Unavailable, "the watch ended before its session did")
	}
	return false, err
}

// backOff waits before the next stream, or returns the error that ends the watch.
func (w *watch) backOff(ctx context.Context, err error) error {
	client := w.service.client
	if client.isClosing() {
		return closedError()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failure := newError(err)
	if failure.Code == codes.Canceled && failure.Reason == "" {
		failure = newError(status.Error(codes.Unavailable, "the watch received nothing for too long"))
	}
	now := time.Now()
	if w.failed == 0 {
		w.failingSince = now
	}
	w.failed++
	failure.Attempts = w.failed
	// The server had accepted the credential of a stream that sent something, and there may be a new one since.
	outlived := w.received && (failure.Reason == "CREDENTIAL_EXPIRED" || failure.Reason == "CREDENTIAL_INVALID")
	if failure.Retryable() == "no" && !outlived || now.Sub(w.failingSince) >= w.options.Reconnect {
		return fmt.Errorf("watch: %w", failure)
	}
	if cursor := failure.Metadata["cursor"]; failure.Reason == "DRAINING" && cursor != "" {
		w.cursor = cursor
	}
	if err := client.pause(ctx, client.retry.delay(w.failed, failure.RetryAfter)); err == ErrClosed {
		return closedError()
	} else if err != nil {
		return err
	}
	return nil
}

// decode returns the item of a message; nil for a heartbeat, and for kinds that a newer server may add.
func (w *watch) decode(ctx context.Context, message *pb.WatchResponse) (WatchItem, error) {
	cursor := Cursor(w.cursor)
	switch kind := message.Kind.(type) {
	case *pb.WatchResponse_Snapshot:
		return w.snapshot(ctx, cursor, kind.Snapshot)
	case *pb.WatchResponse_Event:
		return Appended{cursor, w.service.storedEvent(kind.Event)}, nil
	case *pb.WatchResponse_StateChange:
		texts, err := splitObject(kind.StateChange.GetDelta().GetSetJson())
		removed := kind.StateChange.GetDelta().GetRemove()
		return Changed{cursor, decodeValues(texts), removed, kind.StateChange.CommitTime.AsTime()}, err
	case *pb.WatchResponse_CaughtUp:
		// The server sends it once per stream; the caller gets it once.
		if w.caughtUp {
			return nil, nil
		}
		w.caughtUp = true
		return CaughtUp{cursor}, nil
	case *pb.WatchResponse_SessionDeleted:
		return Deleted{cursor, kind.SessionDeleted.Uid}, nil
	}
	return nil, nil
}

// snapshot returns the state of a message. What did not fit into it is read page by page; changes since the snapshot may
// be in those pages, and come as items as well.
func (w *watch) snapshot(ctx context.Context, cursor Cursor, sent *pb.StateSnapshot) (WatchItem, error) {
	item := Snapshot{Cursor: cursor, LastSequence: sent.LastSequence, UID: sent.Uid}
	texts, err := splitObject(sent.GetStateJson())
	damaged := sent.DamagedKeys
	if sent.StateOmitted {
		var found *scopeState
		if found, err = w.service.readState(ctx, &pb.GetStateRequest{Scope: w.scope}); err == nil {
			texts, damaged = found.texts, found.damaged
		}
	}
	w.service.warnDamaged(w.scope.SessionId, damaged)
	item.State = decodeValues(texts)
	return item, err
}
