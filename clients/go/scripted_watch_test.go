package sessiond_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	sessiond "github.com/sessiond/sessiond/clients/go"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// watchScript answers one stream after the other, and notes the cursors and tokens that they were opened with.
type watchScript struct {
	pb.UnimplementedWatchServiceServer
	cursors []string
	tokens  []string
	streams []func(stream grpc.ServerStreamingServer[pb.WatchResponse]) error
}

func (s *watchScript) Watch(request *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	s.cursors = append(s.cursors, request.Cursor)
	s.tokens = append(s.tokens, metadata.ValueFromIncomingContext(stream.Context(), "authorization")...)
	if len(s.cursors) > len(s.streams) {
		return status.Error(codes.Internal, "the script is over")
	}
	next := s.streams[len(s.cursors)-1]
	return next(stream)
}

// serve returns the address of a server with the script.
func (s *watchScript) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterWatchServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// sendThen is a stream with some messages and an end.
func sendThen(end error, messages ...*pb.WatchResponse) func(grpc.ServerStreamingServer[pb.WatchResponse]) error {
	return func(stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
		for _, message := range messages {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		return end
	}
}

func eventAt(sequence int64, cursor string) *pb.WatchResponse {
	return &pb.WatchResponse{Cursor: cursor, Kind: &pb.WatchResponse_Event{Event: &pb.Event{Sequence: sequence}}}
}

func deletedAt(cursor string) *pb.WatchResponse {
	return &pb.WatchResponse{Cursor: cursor, Kind: &pb.WatchResponse_SessionDeleted{SessionDeleted: &pb.SessionDeleted{}}}
}

// TestWatchResumes goes on after silence, an early end and a shutdown, each with the newest cursor.
func TestWatchResumes(t *testing.T) {
	caughtUp := &pb.WatchResponse{Cursor: "c", Kind: &pb.WatchResponse_CaughtUp{CaughtUp: &pb.CaughtUp{}}}
	draining, err := status.New(codes.Unavailable, "draining").WithDetails(&errdetails.ErrorInfo{
		Domain: "sessiond", Reason: "DRAINING", Metadata: map[string]string{"retryable": "yes", "cursor": "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	script := &watchScript{streams: []func(grpc.ServerStreamingServer[pb.WatchResponse]) error{
		func(stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
			<-stream.Context().Done()
			return nil
		},
		sendThen(nil, eventAt(1, "1"), &pb.WatchResponse{Kind: &pb.WatchResponse_Heartbeat{Heartbeat: &pb.Heartbeat{}}}),
		sendThen(draining.Err(), eventAt(2, "2")),
		sendThen(errLost, caughtUp),
		sendThen(nil, caughtUp, &pb.WatchResponse{}, deletedAt("d")),
	}}
	// The timeout of a call is how long an opened stream may be silent: of all streams, so that it has to be longer than a busy machine
	// takes for a message.
	service := dial(t, script.serve(t), sessiond.WithTimeout(10*time.Second))
	lines := follow(context.Background(), service, sessiond.Scope{AppName: app}, sessiond.WatchOptions{})
	expect(t, lines, "event 1 map[]", "event 2 map[]", "caught up", "deleted")
	if line, ok := <-lines; ok {
		t.Errorf("after the deletion: %q", line)
	}
	if diff := cmp.Diff([]string{"", "", "1", "3", "c"}, script.cursors); diff != "" {
		t.Errorf("cursors (-want +got):\n%s", diff)
	}
}

// newTokens sends another token with every call.
type newTokens struct{ sent *atomic.Int64 }

func (n newTokens) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + strconv.FormatInt(n.sent.Add(1), 10)}, nil
}
func (newTokens) RequireTransportSecurity() bool { return false }

// followWithNewTokens returns the lines of a watch, and the cursor and the token of each of its streams.
func followWithNewTokens(t *testing.T, streams ...func(grpc.ServerStreamingServer[pb.WatchResponse]) error) (lines, opened []string) {
	t.Helper()
	script := &watchScript{streams: streams}
	service := dial(t, script.serve(t), sessiond.WithDialOptions(grpc.WithPerRPCCredentials(newTokens{new(atomic.Int64)})))
	for line := range follow(t.Context(), service, sessiond.Scope{AppName: app}, sessiond.WatchOptions{}) {
		lines = append(lines, line)
	}
	for i, cursor := range script.cursors {
		opened = append(opened, cursor+" "+script.tokens[i])
	}
	return lines, opened
}

var (
	errExpired = refusal(codes.Unauthenticated, "CREDENTIAL_EXPIRED", "no")
	errInvalid = refusal(codes.Unauthenticated, "CREDENTIAL_INVALID", "no")
)

// TestWatchOutlivesItsToken goes on at the last cursor with a new token, as often as the server ends a stream that it had accepted.
func TestWatchOutlivesItsToken(t *testing.T) {
	lines, opened := followWithNewTokens(t,
		sendThen(errExpired, eventAt(1, "1")),
		sendThen(errInvalid, &pb.WatchResponse{Cursor: "2", Kind: &pb.WatchResponse_Heartbeat{Heartbeat: &pb.Heartbeat{}}}),
		sendThen(nil, deletedAt("3")),
	)
	if diff := cmp.Diff([]string{"event 1 map[]", "deleted"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{" Bearer 1", "1 Bearer 2", "2 Bearer 3"}, opened); diff != "" {
		t.Errorf("streams (-want +got):\n%s", diff)
	}
}

// TestRefusedTokenEndsWatch reports a token that the server does not accept at once, also after one that it had accepted.
func TestRefusedTokenEndsWatch(t *testing.T) {
	for reason, refused := range map[string]error{"CREDENTIAL_EXPIRED": errExpired, "CREDENTIAL_INVALID": errInvalid} {
		t.Run(reason, func(t *testing.T) {
			failure := "error watch: scripted [" + reason + "]"
			lines, opened := followWithNewTokens(t, sendThen(refused))
			if diff := cmp.Diff([]string{failure}, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if len(opened) != 1 {
				t.Errorf("%d streams, want 1", len(opened))
			}
			lines, opened = followWithNewTokens(t, sendThen(refused, eventAt(1, "1")), sendThen(refused))
			if diff := cmp.Diff([]string{"event 1 map[]", failure}, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if len(opened) != 2 {
				t.Errorf("%d streams, want 2", len(opened))
			}
		})
	}
	// Another reason ends a watch that has received something, too.
	denied := refusal(codes.PermissionDenied, "PERMISSION_DENIED", "no")
	if _, opened := followWithNewTokens(t, sendThen(denied, eventAt(1, "1"))); len(opened) != 1 {
		t.Errorf("%d streams after PERMISSION_DENIED, want 1", len(opened))
	}
}
