// Program conversation is a client that uses the wire contract alone: `conversation [ADDRESS]`.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "example.com/conversation/sessiondv1"
)

const (
	timeout  = 10 * time.Second // of one call
	retryFor = 60 * time.Second // of one call and its retries
	app      = "weather"
	user     = "alice"
)

// failure is what sessiond says about a failed call.
type failure struct {
	code       codes.Code
	reason     string
	metadata   map[string]string
	violations []*errdetails.BadRequest_FieldViolation
	retryDelay time.Duration
}

func failureOf(err error) failure {
	found := failure{code: status.Code(err)}
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == "sessiond" {
				found.reason, found.metadata = detail.Reason, detail.Metadata
			}
		case *errdetails.RetryInfo:
			found.retryDelay = detail.RetryDelay.AsDuration()
		case *errdetails.BadRequest:
			found.violations = detail.FieldViolations
		}
	}
	return found
}

// mayRepeat tells whether the same call may be sent again. Every write below has an id, so `same_id` suffices.
func (f failure) mayRepeat() bool {
	if f.reason != "" {
		return f.metadata["retryable"] == "yes" || f.metadata["retryable"] == "same_id"
	}
	// The transport failed, and the call may have been applied.
	return f.code == codes.Unavailable || f.code == codes.DeadlineExceeded
}

// retrier waits between attempts, longer each time, until the time for retries is over.
type retrier struct {
	giveUpAt time.Time
	delay    time.Duration
}

func newRetrier() *retrier {
	return &retrier{giveUpAt: time.Now().Add(retryFor), delay: 100 * time.Millisecond}
}

// waitOrFail returns err if the call must not be sent again.
func (r *retrier) waitOrFail(err error) error {
	failure := failureOf(err)
	if !failure.mayRepeat() || time.Now().After(r.giveUpAt) {
		return err
	}
	fmt.Fprintln(os.Stderr, "retrying after", cmp.Or(failure.reason, failure.code.String()))
	jittered := time.Duration(float64(r.delay) * (0.5 + rand.Float64()/2))
	time.Sleep(max(jittered, failure.retryDelay))
	r.delay = min(r.delay*2, 2*time.Second)
	return nil
}

func withRetries[Request, Response any](
	ctx context.Context,
	call func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, error) {
	retrier := newRetrier()
	for {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		response, err := call(attempt, request)
		cancel()
		if err == nil {
			return response, nil
		}
		if err := retrier.waitOrFail(err); err != nil {
			return response, err
		}
	}
}

type client struct {
	sessions pb.SessionServiceClient
	events   pb.EventServiceClient
	watches  pb.WatchServiceClient
}

func (c *client) create(ctx context.Context, sessionID string, state any) (*pb.Session, error) {
	request := &pb.CreateSessionRequest{
		AppName:       app,
		UserId:        user,
		SessionId:     sessionID,
		StateForm:     &pb.CreateSessionRequest_StateJson{StateJson: toJSON(state)},
		AllowExisting: true, // makes the call safe to repeat
		JsonForm:      pb.JsonForm_JSON_FORM_TEXT,
	}
	response, err := withRetries(ctx, c.sessions.CreateSession, request)
	return response.GetSession(), err
}

// append appends the event once, however often the call has to be sent.
func (c *client) append(ctx context.Context, key *pb.SessionKey, event *pb.Event) (*pb.AppendEventResponse, error) {
	event.EventId = cmp.Or(event.EventId, uuid.NewString())
	request := &pb.AppendEventRequest{Key: key, Event: event, ReturnState: true, JsonForm: pb.JsonForm_JSON_FORM_TEXT}
	return withRetries(ctx, c.events.AppendEvent, request)
}

// watch prints the events of a session until nothing is left to catch up on.
func (c *client) watch(ctx context.Context, key *pb.SessionKey) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &pb.WatchRequest{
		Scope:    &pb.Scope{AppName: key.AppName, UserId: key.UserId, SessionId: key.SessionId},
		Start:    pb.WatchStart_WATCH_START_BEGINNING,
		JsonForm: pb.JsonForm_JSON_FORM_TEXT,
	}
	retrier := newRetrier()
	for {
		stream, err := c.watches.Watch(ctx, request)
		for err == nil {
			var message *pb.WatchResponse
			if message, err = stream.Recv(); err != nil {
				break
			}
			request.Cursor = message.Cursor // goes on from here after a lost connection
			retrier = newRetrier()
			switch kind := message.Kind.(type) {
			case *pb.WatchResponse_Event:
				fmt.Printf("watched event %d by %s\n", kind.Event.Sequence, kind.Event.Author)
			case *pb.WatchResponse_CaughtUp:
				fmt.Println("caught up")
				return nil
			case *pb.WatchResponse_SessionDeleted:
				fmt.Println("session deleted")
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			continue
		}
		if err := retrier.waitOrFail(err); err != nil {
			return err
		}
	}
}

func says(author, role, text string, delta *pb.StateDelta) *pb.Event {
	body := map[string]any{"content": map[string]any{"role": role, "parts": []any{map[string]any{"text": text}}}}
	return &pb.Event{
		Author:       author,
		InvocationId: "turn-1",
		BodyForm:     &pb.Event_BodyJson{BodyJson: toJSON(body)},
		StateDelta:   delta,
	}
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // only values of this program
	}
	return string(text)
}

func run(ctx context.Context, address string) error {
	// The server is local, and back soon after a restart. By default gRPC waits for up to two minutes.
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 100*time.Millisecond, time.Second
	channel, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect}))
	if err != nil {
		return err
	}
	defer channel.Close()
	c := &client{pb.NewSessionServiceClient(channel), pb.NewEventServiceClient(channel), pb.NewWatchServiceClient(channel)}

	session, err := c.create(ctx, uuid.NewString(), map[string]string{"app:theme": "dark", "topic": "the weather"})
	if err != nil {
		return err
	}
	fmt.Println("created a session with", session.GetStateJson())

	increment := &pb.StateOperation{Key: "user:questions", Operation: &pb.StateOperation_Increment{
		Increment: &pb.Increment{Amount: &pb.Increment_By{By: 1}},
	}}
	topic := &pb.StateDelta_SetJson{SetJson: toJSON(map[string]string{"topic": "rain"})}
	var state string
	for _, event := range []*pb.Event{
		says("user", "user", "Will it rain?", &pb.StateDelta{Operations: []*pb.StateOperation{increment}}),
		says("agent", "model", "Yes, at noon.", &pb.StateDelta{SetForm: topic}),
	} {
		appended, err := c.append(ctx, session.Key, event)
		if err != nil {
			return err
		}
		again := ""
		if appended.Replayed {
			again = ", which an earlier attempt had stored"
		}
		fmt.Printf("appended event %d by %s%s\n", appended.Event.Sequence, appended.Event.Author, again)
		state = appended.Session.GetStateJson()
	}
	fmt.Println("the state is", state)

	refused := says("user", "user", "Again?", &pb.StateDelta{SetForm: &pb.StateDelta_SetJson{SetJson: "[]"}})
	refused.EventId = strings.Repeat("x", 200)
	if _, err := c.append(ctx, session.Key, refused); err != nil {
		failure := failureOf(err)
		fmt.Printf("refused with %s, retryable: %s\n", failure.reason, failure.metadata["retryable"])
		for _, name := range slices.Sorted(maps.Keys(failure.metadata)) {
			fmt.Printf("  %s = %s\n", name, failure.metadata[name])
		}
		for _, violation := range failure.violations {
			fmt.Printf("  %s: %s\n", violation.Field, violation.Description)
		}
	}

	return c.watch(ctx, session.Key)
}

func main() {
	address := "127.0.0.1:50051"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := run(context.Background(), address); err != nil {
		fmt.Fprintln(os.Stderr, "conversation:", err)
		os.Exit(1)
	}
}
