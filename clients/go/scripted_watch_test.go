package sessiond_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sessiond "github.com/sessiond/sessiond/clients/go"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// watchScript answers one stream after the other, and notes the cursors that they were opened with.
type watchScript struct {
	pb.UnimplementedWatchServiceServer
	cursors []string
	streams []func(stream grpc.ServerStreamingServer[pb.WatchResponse]) error
}

func (s *watchScript) Watch(request *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	s.cursors = append(s.cursors, request.Cursor)
	next := s.streams[len(s.cursors)-1]
	return next(stream)
}

// TestWatchResumes goes on after silence, an early end and a shutdown, each with the newest cursor.
func TestWatchResumes(t *testing.T) {
	event := func(sequence int64, cursor string) *pb.WatchResponse {
		return &pb.WatchResponse{Cursor: cursor, Kind: &pb.WatchResponse_Event{Event: &pb.Event{Sequence: sequence}}}
	}
	caughtUp := &pb.WatchResponse{Cursor: "c", Kind: &pb.WatchResponse_CaughtUp{CaughtUp: &pb.CaughtUp{}}}
	draining, err := status.New(codes.Unavailable, "draining").WithDetails(&errdetails.ErrorInfo{
		Domain: "sessiond", Reason: "DRAINING", Metadata: map[string]string{"retryable": "yes", "cursor": "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(end error, messages ...*pb.WatchResponse) func(grpc.ServerStreamingServer[pb.WatchResponse]) error {
		return func(stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
			for _, message := range messages {
				if err := stream.Send(message); err != nil {
					return err
				}
			}
			return end
		}
	}
	script := &watchScript{streams: []func(grpc.ServerStreamingServer[pb.WatchResponse]) error{
		func(stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
			<-stream.Context().Done()
			return nil
		},
		send(nil, event(1, "1"), &pb.WatchResponse{Kind: &pb.WatchResponse_Heartbeat{Heartbeat: &pb.Heartbeat{}}}),
		send(draining.Err(), event(2, "2")),
		send(errLost, caughtUp),
		send(nil, caughtUp, &pb.WatchResponse{}, &pb.WatchResponse{
			Cursor: "d", Kind: &pb.WatchResponse_SessionDeleted{SessionDeleted: &pb.SessionDeleted{}},
		}),
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterWatchServiceServer(server, script)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	// The timeout of a call is how long an opened stream may be silent: of all streams, so that it has to be longer than a busy machine
	// takes for a message.
	service := dial(t, listener.Addr().String(), sessiond.WithTimeout(10*time.Second))
	lines := follow(context.Background(), service, sessiond.Scope{AppName: app}, sessiond.WatchOptions{})
	expect(t, lines, "event 1 map[]", "event 2 map[]", "caught up", "deleted")
	if line, ok := <-lines; ok {
		t.Errorf("after the deletion: %q", line)
	}
	if diff := cmp.Diff([]string{"", "", "1", "3", "c"}, script.cursors); diff != "" {
		t.Errorf("cursors (-want +got):\n%s", diff)
	}
}
