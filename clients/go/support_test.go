package sessiond_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/testserver"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

const (
	app  = "app"
	user = "user"
)

// stores are the servers that tests run on.
var stores = []struct{ name, uri string }{{"memory", "memory:"}, {"sqlite", "sqlite:test.db"}}

func startServer(t *testing.T, store string) *testserver.Server {
	t.Helper()
	return testserver.Start(t, store)
}

// connect returns a service that ends with the test. Calls may be slow on a busy machine, and no test measures them.
func connect(t *testing.T, server *testserver.Server, options ...sessiond.Option) *sessiond.Service {
	t.Helper()
	return dial(t, server.Address, options...)
}

func dial(t *testing.T, address string, options ...sessiond.Option) *sessiond.Service {
	t.Helper()
	patient := []sessiond.Option{
		sessiond.WithTimeout(10 * time.Minute),
		sessiond.WithRetryPolicy(sessiond.RetryPolicy{Attempts: 100_000, FirstDelay: time.Millisecond, MaxDelay: 50 * time.Millisecond}),
	}
	service, err := sessiond.New(address, append(patient, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return service
}

// inMemory returns a service on a server with the memory store.
func inMemory(t *testing.T, options ...sessiond.Option) *sessiond.Service {
	t.Helper()
	return connect(t, startServer(t, "memory:"), options...)
}

func create(t *testing.T, service session.Service, id string, state map[string]any) session.Session {
	t.Helper()
	created, err := service.Create(t.Context(), &session.CreateRequest{AppName: app, UserID: user, SessionID: id, State: state})
	if err != nil {
		t.Fatal(err)
	}
	return created.Session
}

func get(t *testing.T, service session.Service, id string) session.Session {
	t.Helper()
	found, err := service.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	return found.Session
}

func appendTo(t *testing.T, service session.Service, s session.Session, event *session.Event) {
	t.Helper()
	if err := service.AppendEvent(t.Context(), s, event); err != nil {
		t.Fatal(err)
	}
}

func textEvent(t *testing.T, text string) *session.Event {
	event := session.NewEvent(t.Context(), "inv")
	event.Author = "user"
	event.LLMResponse = model.LLMResponse{Content: genai.NewContentFromText(text, "user")}
	return event
}

func deltaEvent(t *testing.T, delta map[string]any) *session.Event {
	event := session.NewEvent(t.Context(), "inv")
	event.Author = "agent"
	event.Actions.StateDelta = delta
	return event
}

func stateOf(s session.Session) map[string]any { return maps.Collect(s.State().All()) }

func ids(s session.Session) []string {
	result := []string{}
	for event := range s.Events().All() {
		result = append(result, event.ID)
	}
	return result
}

var insecureTransport = grpc.WithTransportCredentials(insecure.NewCredentials())

func startServerOn(t *testing.T, store, listen string) *testserver.Server {
	t.Helper()
	return testserver.StartOn(t, store, listen)
}

var foreignTime = time.Date(2026, 11, 21, 12, 0, 51, 250_924_110, time.UTC)

// raw appends an event as a program without this package does.
func raw(t *testing.T, server *testserver.Server, id, body, set string) {
	t.Helper()
	_, err := pb.NewEventServiceClient(dialRaw(t, server.Address)).AppendEvent(t.Context(), &pb.AppendEventRequest{
		Key: &pb.SessionKey{AppName: app, UserId: user, SessionId: id},
		Event: &pb.Event{
			InvocationId: "inv", Author: "theirs", Branch: "a.b", EventTime: timestamppb.New(foreignTime),
			StateDelta: &pb.StateDelta{SetForm: &pb.StateDelta_SetJson{SetJson: set}},
			BodyForm:   &pb.Event_BodyJson{BodyJson: body},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func rawState(t *testing.T, server *testserver.Server, id string) map[string]json.RawMessage {
	t.Helper()
	response, err := pb.NewStateServiceClient(dialRaw(t, server.Address)).GetState(t.Context(), &pb.GetStateRequest{
		Scope: &pb.Scope{AppName: app, UserId: user, SessionId: id}, JsonForm: pb.JsonForm_JSON_FORM_TEXT,
	})
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(response.GetStateJson()), &state); err != nil {
		t.Fatal(err)
	}
	return state
}
