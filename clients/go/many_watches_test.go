package sessiond_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// countedConns counts the connections of a service.
type countedConns struct {
	made   atomic.Int64
	closed chan struct{}
}

func (c *countedConns) dialer() sessiond.Option {
	c.closed = make(chan struct{}, 100)
	return sessiond.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			c.made.Add(1)
		}
		return &countedConn{Conn: conn, closed: c.closed}, err
	}))
}

type countedConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.closed <- struct{}{} })
	return c.Conn.Close()
}

func (c *countedConns) expectClosed(t *testing.T, n int) {
	t.Helper()
	for at := range n {
		select {
		case <-c.closed:
		case <-time.After(time.Minute):
			t.Fatalf("%d connections were closed, want %d", at, n)
		}
	}
	if len(c.closed) != 0 {
		t.Fatalf("more than %d connections were closed", n)
	}
}

// TestThousandWatches tells every one of 1,000 watches what has changed. They are spread over five connections, so that
// neither a watch nor a call waits for a stream. Calls keep the first one, and the others end with their watches.
func TestThousandWatches(t *testing.T) {
	const watches, sessions = 1000, 10
	conns := &countedConns{}
	service := connect(t, startServer(t, "memory:"), conns.dialer())
	for n := range sessions {
		create(t, service, fmt.Sprint("s", n), nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := make([]<-chan string, watches)
	for n := range lines {
		scope := sessiond.Scope{AppName: app}
		if n%2 == 0 {
			scope = sessiond.Scope{AppName: app, UserID: user, SessionID: fmt.Sprint("s", n/2%sessions)}
		}
		lines[n] = follow(ctx, service, scope, sessiond.WatchOptions{Start: sessiond.FromNow})
	}
	for _, watch := range lines {
		expect(t, watch, "caught up")
	}
	if made := conns.made.Load(); made != watches/200 {
		t.Errorf("%d connections for %d watches, want %d", made, watches, watches/200)
	}

	for n := range sessions {
		appendTo(t, service, get(t, service, fmt.Sprint("s", n)), deltaEvent(t, map[string]any{"n": n}))
	}
	for n := 0; n < watches; n += 2 {
		expect(t, lines[n], fmt.Sprint("event 1 map[n:", n/2%sessions, "]"))
	}
	if _, err := service.UpdateState(ctx, sessiond.Scope{AppName: app}, sessiond.Delta{Set: map[string]any{"app:a": 1}}); err != nil {
		t.Fatal(err)
	}
	for _, watch := range lines {
		expect(t, watch, "changed map[app:a:1] []")
	}

	cancel()
	for _, watch := range lines {
		expect(t, watch, "error context canceled")
	}
	conns.expectClosed(t, watches/200-1)
	expect(t, follow(t.Context(), service, sessiond.Scope{AppName: app}, sessiond.WatchOptions{Start: sessiond.FromNow}), "caught up")
	if made := conns.made.Load(); made != watches/200 {
		t.Errorf("a watch after the others has made a connection, the %dth", made)
	}
}

// TestCloseOfManyWatches closes all connections, also that of a watch whose loop does not go on.
func TestCloseOfManyWatches(t *testing.T) {
	const watches = 400
	conns := &countedConns{}
	service := connect(t, startServer(t, "memory:"), conns.dialer())
	scope, fromNow := sessiond.Scope{AppName: app}, sessiond.WatchOptions{Start: sessiond.FromNow}
	lines := make([]<-chan string, watches)
	for n := range lines {
		lines[n] = follow(t.Context(), service, scope, fromNow)
	}
	for _, watch := range lines {
		expect(t, watch, "caught up")
	}
	reached, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	go func() {
		for range service.Watch(context.Background(), scope, fromNow) {
			close(reached)
			<-release
			return
		}
	}()
	<-reached
	if err := service.Close(); err != nil {
		t.Fatal(err)
	}
	for _, watch := range lines {
		expect(t, watch, "error "+sessiond.ErrClosed.Error()+" [Canceled]")
	}
	conns.expectClosed(t, watches/200+1)
}
