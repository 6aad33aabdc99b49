package sessiond_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// refusal is a status as the server makes it.
func refusal(code codes.Code, reason, retryable string, details ...*durationpb.Duration) error {
	made := status.New(code, "scripted")
	info := &errdetails.ErrorInfo{Domain: "sessiond", Reason: reason, Metadata: map[string]string{"retryable": retryable}}
	made, err := made.WithDetails(info)
	for _, delay := range details {
		made, err = made.WithDetails(&errdetails.RetryInfo{RetryDelay: delay})
	}
	if err != nil {
		return err
	}
	return made.Err()
}

// firstCalls returns a rule that fails the first n calls of a method.
func firstCalls(wanted string, n int, err error) func(string, int) error {
	return func(method string, call int) error {
		if method == wanted && call <= n {
			return err
		}
		return nil
	}
}

var errLost = status.Error(codes.Unavailable, "connection lost")

// TestRetries repeats what the server allows, with the same request, and nothing else.
func TestRetries(t *testing.T) {
	server := startServer(t, "memory:")
	for name, test := range map[string]struct {
		err   error
		calls int
	}{
		"yes":                        {refusal(codes.Unavailable, "STARTING", "yes"), 3},
		"yes with another code":      {refusal(codes.DeadlineExceeded, "EXPIRED_IN_QUEUE", "yes"), 3},
		"same id":                    {refusal(codes.Unknown, "OUTCOME_UNKNOWN", "same_id"), 3},
		"lost connection":            {errLost, 3},
		"with a delay":               {refusal(codes.ResourceExhausted, "OVERLOADED", "yes", durationpb.New(time.Millisecond)), 3},
		"no":                         {refusal(codes.Internal, "INTERNAL", "no"), 1},
		"a value of a newer server":  {refusal(codes.Unavailable, "NEW", "perhaps"), 1},
		"unauthenticated":            {refusal(codes.Unauthenticated, "UNAUTHENTICATED", "no"), 1},
		"permission denied":          {refusal(codes.PermissionDenied, "PERMISSION_DENIED", "no"), 1},
		"unauthenticated by a proxy": {status.Error(codes.Unauthenticated, "no token"), 1},
		"denied by a proxy":          {status.Error(codes.PermissionDenied, "not you"), 1},
		"an error without ErrorInfo": {status.Error(codes.Internal, "broken"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, server.Address, &proxy{before: firstCalls("AppendEvent", 2, test.err)})
			service := dial(t, p.address)
			s := create(t, service, "", nil)
			event := textEvent(t, "hello")
			err := service.AppendEvent(t.Context(), s, event)
			requests := p.sent("AppendEvent")
			if len(requests) != test.calls {
				t.Fatalf("%d calls, want %d", len(requests), test.calls)
			}
			for _, request := range requests[1:] {
				if !proto.Equal(request, requests[0]) {
					t.Errorf("a retry sent another request: %v", request)
				}
			}
			if test.calls == 1 {
				failure, ok := errors.AsType[*sessiond.Error](err)
				if !ok || failure.Attempts != 1 || s.Events().Len() != 0 {
					t.Errorf("error %v, %d events in the session", err, s.Events().Len())
				}
				return
			}
			if err != nil || s.Events().Len() != 1 || len(ids(get(t, service, s.ID()))) != 1 {
				t.Errorf("error %v, events %v", err, ids(s))
			}
		})
	}
}

// TestLostResponses repeats calls that the server has applied.
func TestLostResponses(t *testing.T) {
	server := startServer(t, "memory:")
	lose := func(method string, call int) error {
		if call == 1 && method != "GetSession" {
			return errLost
		}
		return nil
	}
	p := startProxy(t, server.Address, &proxy{after: lose})
	service := dial(t, p.address)

	s := create(t, service, "s", map[string]any{"a": 1.0})
	if got, _ := s.State().Get("a"); got != 1.0 {
		t.Errorf("the state of the created session is %v", stateOf(s))
	}
	appendTo(t, service, s, textEvent(t, "one"))
	if err := service.AppendEventWith(t.Context(), s, textEvent(t, "two"), sessiond.Increment{Key: "n", By: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := service.UpdateState(t.Context(), sessiond.Scope{AppName: app}, sessiond.Delta{
		Operations: []sessiond.Operation{sessiond.Increment{Key: "app:n", By: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	key := sessiond.Key{AppName: app, UserID: user, SessionID: "s"}
	fork, err := service.Fork(t.Context(), sessiond.ForkRequest{Source: key, SessionID: "fork"})
	if err != nil {
		t.Fatal(err)
	}
	if fork.ID() != "fork" {
		t.Errorf("the fork is %q", fork.ID())
	}
	found := get(t, service, "s")
	if found.Events().Len() != 2 || stateOf(found)["n"] != 5.0 || stateOf(found)["app:n"] != 1.0 {
		t.Errorf("%d events, state %v", found.Events().Len(), stateOf(found))
	}
	rewound, err := service.Rewind(t.Context(), key, 1)
	if err != nil || rewound.Events().Len() != 1 {
		t.Errorf("Rewind() = %v, %v", rewound, err)
	}
	for _, method := range []string{"CreateSession", "UpdateState", "ForkSession", "RewindSession"} {
		if requests := p.sent(method); len(requests) != 2 || !proto.Equal(requests[0], requests[1]) {
			t.Errorf("%s was sent %d times, or changed", method, len(requests))
		}
	}
}

// TestCreateTellsItsOwnSessionFromAnother keeps a taken id an error, also when it is found by a retry.
func TestCreateTellsItsOwnSessionFromAnother(t *testing.T) {
	server := startServer(t, "memory:")
	create(t, connect(t, server), "taken", nil)
	p := startProxy(t, server.Address, &proxy{before: firstCalls("CreateSession", 1, errLost)})
	_, err := dial(t, p.address).Create(t.Context(), &session.CreateRequest{AppName: app, UserID: user, SessionID: "taken"})
	if !errors.Is(err, sessiond.ErrAlreadyExists) {
		t.Errorf("Create() = %v, want ErrAlreadyExists", err)
	}
}

// TestCancelledAppend leaves the session as it was, and can be repeated with the same event.
func TestCancelledAppend(t *testing.T) {
	server := startServer(t, "memory:")
	applied, release := make(chan struct{}), make(chan struct{})
	p := startProxy(t, server.Address, &proxy{after: func(method string, call int) error {
		if method == "AppendEvent" && call == 1 {
			close(applied)
			<-release
		}
		return nil
	}})
	service := dial(t, p.address)
	s := create(t, service, "s", nil)
	event := deltaEvent(t, map[string]any{"a": 1, "temp:t": 2})
	event.ID = ""
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-applied
		cancel()
	}()
	err := service.AppendEvent(ctx, s, event)
	close(release)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "may have been applied") {
		t.Fatalf("AppendEvent() = %v", err)
	}
	if event.ID == "" || s.Events().Len() != 0 || len(stateOf(s)) != 0 {
		t.Fatalf("after a failure: id %q, events %v, state %v", event.ID, ids(s), stateOf(s))
	}
	appendTo(t, service, s, event)
	if got := ids(get(t, service, "s")); len(got) != 1 || len(ids(s)) != 1 {
		t.Errorf("stored %v, in the session %v, want one event", got, ids(s))
	}
	if want := 2; stateOf(s)["temp:t"] != want || stateOf(s)["a"] != 1 {
		t.Errorf("state %v", stateOf(s))
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := service.AppendEvent(ctx, s, textEvent(t, "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("AppendEvent() with an ended context = %v", err)
	}
}

func TestClose(t *testing.T) {
	server := startServer(t, "memory:")
	reached := make(chan struct{})
	release := make(chan struct{})
	p := startProxy(t, server.Address, &proxy{before: func(method string, _ int) error {
		if method == "GetSession" {
			reached <- struct{}{}
			<-release
		}
		return nil
	}})
	service := dial(t, p.address, sessiond.WithCloseGrace(10*time.Minute))
	create(t, service, "s", nil)
	failed := make(chan error, 1)
	go func() {
		_, err := service.Get(context.Background(), &session.GetRequest{AppName: app, UserID: user, SessionID: "s"})
		failed <- err
	}()
	<-reached
	closed := make(chan error, 1)
	go func() { closed <- service.Close() }()
	for {
		// The call is released only when the service refuses others.
		if _, err := service.List(t.Context(), &session.ListRequest{AppName: app}); errors.Is(err, sessiond.ErrClosed) {
			break
		}
	}
	close(release)
	if err := <-failed; err != nil {
		t.Errorf("Close() cut off a call in its grace: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close() = %v", err)
	}
	if err := service.Close(); err != nil {
		t.Errorf("the second Close() = %v", err)
	}
	_, err := service.List(t.Context(), &session.ListRequest{AppName: app})
	if !errors.Is(err, sessiond.ErrClosed) || status.Code(err) != codes.Canceled {
		t.Errorf("List() after Close() = %v", err)
	}
}

func TestCloseEndsCallsAfterItsGrace(t *testing.T) {
	server := startServer(t, "memory:")
	reached, release := make(chan struct{}), make(chan struct{})
	p := startProxy(t, server.Address, &proxy{before: func(method string, _ int) error {
		if method == "GetSession" {
			close(reached)
			<-release
		}
		return nil
	}})
	defer close(release)
	service := dial(t, p.address, sessiond.WithCloseGrace(0))
	create(t, service, "s", nil)
	failed := make(chan error, 1)
	go func() {
		_, err := service.Get(context.Background(), &session.GetRequest{AppName: app, UserID: user, SessionID: "s"})
		failed <- err
	}()
	<-reached
	if err := service.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, sessiond.ErrClosed) {
		t.Errorf("Get() = %v, want ErrClosed", err)
	}
}

// token is a credential of a caller.
type token struct{}

func (token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer secret"}, nil
}
func (token) RequireTransportSecurity() bool { return false }

// handshakes counts attempts of a TLS handshake.
type handshakes struct {
	credentials.TransportCredentials
	started chan string
}

func (h handshakes) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	select {
	case h.started <- authority:
	default:
	}
	return h.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

func (h handshakes) Clone() credentials.TransportCredentials { return h }

func TestDialOptions(t *testing.T) {
	server := startServer(t, "memory:")
	p := startProxy(t, server.Address, &proxy{})
	create(t, dial(t, p.address, sessiond.WithDialOptions(grpc.WithPerRPCCredentials(token{}))), "s", nil)
	if got := p.metadata[0].Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		t.Errorf("the server received the authorization %q", got)
	}

	tls := handshakes{credentials.NewTLS(nil), make(chan string, 1)}
	once := sessiond.WithRetryPolicy(sessiond.RetryPolicy{Attempts: 1})
	service := dial(t, p.address, sessiond.WithDialOptions(grpc.WithTransportCredentials(tls)), once)
	if _, err := service.List(t.Context(), &session.ListRequest{AppName: app}); !errors.Is(err, sessiond.ErrUnavailable) {
		t.Errorf("List() with TLS on a plain port = %v", err)
	}
	if authority := <-tls.started; authority != p.address {
		t.Errorf("the handshake was with %q", authority)
	}
	// An https address uses TLS without an option.
	_, err := dial(t, "https://"+p.address, once).List(t.Context(), &session.ListRequest{AppName: app})
	if err == nil || !strings.Contains(err.Error(), "tls") {
		t.Errorf("List() with https on a plain port = %v", err)
	}
}
