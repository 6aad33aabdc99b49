package sessiond_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// proxy stands between a service and a real server, and does to calls what a test says.
type proxy struct {
	address string
	// before and after are called with the number of the call of its method, from 1. An error replaces the response: one of
	// before also keeps the call from the server.
	before, after func(method string, call int) error
	// edit changes requests before the server gets them, and its responses.
	edit func(message proto.Message)

	mu       sync.Mutex
	requests map[string][]proto.Message
	metadata []metadata.MD
}

func startProxy(t *testing.T, target string, p *proxy) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address, p.requests = listener.Addr().String(), map[string][]proto.Message{}
	upstream := dialRaw(t, target)
	server := grpc.NewServer(grpc.UnaryInterceptor(p.intercept))
	pb.RegisterSessionServiceServer(server, forwardSessions{to: pb.NewSessionServiceClient(upstream)})
	pb.RegisterEventServiceServer(server, forwardEvents{to: pb.NewEventServiceClient(upstream)})
	pb.RegisterStateServiceServer(server, forwardState{to: pb.NewStateServiceClient(upstream)})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return p
}

func (p *proxy) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	p.mu.Lock()
	p.requests[method] = append(p.requests[method], proto.Clone(request.(proto.Message)))
	call := len(p.requests[method])
	sent, _ := metadata.FromIncomingContext(ctx)
	p.metadata = append(p.metadata, sent)
	p.mu.Unlock()
	if p.before != nil {
		if err := p.before(method, call); err != nil {
			return nil, err
		}
	}
	if p.edit != nil {
		p.edit(request.(proto.Message))
	}
	response, err := next(ctx, request)
	if err == nil && p.edit != nil {
		p.edit(response.(proto.Message))
	}
	if err == nil && p.after != nil {
		err = p.after(method, call)
	}
	return response, err
}

func (p *proxy) sent(method string) []proto.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[method]
}

type forwardSessions struct {
	pb.UnimplementedSessionServiceServer
	to pb.SessionServiceClient
}

func (f forwardSessions) CreateSession(ctx context.Context, r *pb.CreateSessionRequest) (*pb.CreateSessionResponse, error) {
	return f.to.CreateSession(ctx, r)
}

func (f forwardSessions) GetSession(ctx context.Context, r *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	return f.to.GetSession(ctx, r)
}

func (f forwardSessions) ListSessions(ctx context.Context, r *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	return f.to.ListSessions(ctx, r)
}

func (f forwardSessions) ForkSession(ctx context.Context, r *pb.ForkSessionRequest) (*pb.ForkSessionResponse, error) {
	return f.to.ForkSession(ctx, r)
}

func (f forwardSessions) RewindSession(ctx context.Context, r *pb.RewindSessionRequest) (*pb.RewindSessionResponse, error) {
	return f.to.RewindSession(ctx, r)
}

func (f forwardSessions) UpdateSession(ctx context.Context, r *pb.UpdateSessionRequest) (*pb.UpdateSessionResponse, error) {
	return f.to.UpdateSession(ctx, r)
}

func (f forwardSessions) DeleteSession(ctx context.Context, r *pb.DeleteSessionRequest) (*pb.DeleteSessionResponse, error) {
	return f.to.DeleteSession(ctx, r)
}

type forwardEvents struct {
	pb.UnimplementedEventServiceServer
	to pb.EventServiceClient
}

func (f forwardEvents) AppendEvent(ctx context.Context, r *pb.AppendEventRequest) (*pb.AppendEventResponse, error) {
	return f.to.AppendEvent(ctx, r)
}

func (f forwardEvents) ListEvents(ctx context.Context, r *pb.ListEventsRequest) (*pb.ListEventsResponse, error) {
	return f.to.ListEvents(ctx, r)
}

type forwardState struct {
	pb.UnimplementedStateServiceServer
	to pb.StateServiceClient
}

func (f forwardState) GetState(ctx context.Context, r *pb.GetStateRequest) (*pb.GetStateResponse, error) {
	return f.to.GetState(ctx, r)
}

func (f forwardState) UpdateState(ctx context.Context, r *pb.UpdateStateRequest) (*pb.UpdateStateResponse, error) {
	return f.to.UpdateState(ctx, r)
}

func dialRaw(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, insecureTransport)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
