package sessiond_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	sessiond "github.com/sessiond/sessiond/clients/go"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// recorder is a server without sessions that keeps the metadata of its calls and watches, and ends every watch at once.
type recorder struct {
	pb.UnimplementedSessionServiceServer
	pb.UnimplementedWatchServiceServer
	address string
	// refuse ends every call and watch, unless it is nil.
	refuse error

	mu   sync.Mutex
	seen []metadata.MD
}

func startRecorder(t *testing.T, network, listen string) *recorder {
	t.Helper()
	listener, err := net.Listen(network, listen)
	if err != nil {
		t.Fatal(err)
	}
	made := &recorder{address: listener.Addr().String()}
	if network == "unix" {
		made.address = "unix:" + listen
	}
	server := grpc.NewServer()
	pb.RegisterSessionServiceServer(server, made)
	pb.RegisterWatchServiceServer(server, made)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return made
}

func (r *recorder) record(ctx context.Context) {
	sent, _ := metadata.FromIncomingContext(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, sent)
}

func (r *recorder) ListSessions(ctx context.Context, _ *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	r.record(ctx)
	return &pb.ListSessionsResponse{}, r.refuse
}

func (r *recorder) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	r.record(stream.Context())
	if r.refuse != nil {
		return r.refuse
	}
	return stream.Send(&pb.WatchResponse{Cursor: "c", Kind: &pb.WatchResponse_SessionDeleted{SessionDeleted: &pb.SessionDeleted{}}})
}

// values returns what each call and watch has sent under a name, joined if it is there more than once.
func (r *recorder) values(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := make([]string, 0, len(r.seen))
	for _, sent := range r.seen {
		joined := ""
		for _, value := range sent.Get(name) {
			joined += value
		}
		result = append(result, joined)
	}
	return result
}

// callAndWatch makes one call and one watch, and returns their errors.
func callAndWatch(ctx context.Context, service *sessiond.Service) [2]error {
	_, called := service.List(ctx, &session.ListRequest{AppName: app})
	var watched error
	for _, err := range service.Watch(ctx, sessiond.Scope{AppName: app, UserID: user, SessionID: "s"}, sessiond.WatchOptions{}) {
		watched = err
	}
	return [2]error{called, watched}
}
