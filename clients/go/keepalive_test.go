package sessiond_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	sessiond "github.com/sessiond/sessiond/clients/go"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// mortalConn is a connection whose peer is gone once it is dead: nothing arrives, and it does not close.
type mortalConn struct {
	net.Conn
	dead   atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *mortalConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if c.dead.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *mortalConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// dyingServer lets the connection of its first call die.
type dyingServer struct {
	pb.UnimplementedSessionServiceServer
	calls int
	kill  func()
}

func (s *dyingServer) DeleteSession(ctx context.Context, _ *pb.DeleteSessionRequest) (*pb.DeleteSessionResponse, error) {
	s.calls++
	if s.calls == 1 {
		s.kill()
		<-ctx.Done()
	}
	return &pb.DeleteSessionResponse{}, nil
}

// TestKeepalive notices that a connection is dead, at the default times or those of the caller.
func TestKeepalive(t *testing.T) {
	quick := grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second})
	for name, test := range map[string]struct {
		options []grpc.DialOption
		after   time.Duration
	}{
		"default":        {nil, 40 * time.Second},
		"caller's times": {[]grpc.DialOption{quick}, 13 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := bufconn.Listen(1 << 16)
				var conns []*mortalConn
				dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					conn, err := listener.DialContext(ctx)
					conns = append(conns, &mortalConn{Conn: conn, closed: make(chan struct{})})
					return conns[len(conns)-1], err
				})
				server := grpc.NewServer()
				pb.RegisterSessionServiceServer(server, &dyingServer{kill: func() { conns[0].dead.Store(true) }})
				go func() { _ = server.Serve(listener) }()
				defer server.Stop()
				service := dial(t, "127.0.0.1:1", sessiond.WithDialOptions(append(test.options, dialer)...))

				began := time.Now()
				err := service.Delete(t.Context(), &session.DeleteRequest{AppName: app, UserID: user, SessionID: "s"})
				if err != nil || len(conns) != 2 {
					t.Fatalf("Delete() = %v after %d connections, want nil after 2", err, len(conns))
				}
				if took := time.Since(began).Truncate(time.Second); took != test.after {
					t.Errorf("the dead connection was left after %v, want %v", took, test.after)
				}
			})
		})
	}
}
