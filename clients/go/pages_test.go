package sessiond_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/session"
	"google.golang.org/protobuf/proto"

	sessiond "github.com/sessiond/sessiond/clients/go"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// smallAnswers makes the server of a proxy one whose answers hold a single key of state.
type smallAnswers struct {
	mu    sync.Mutex
	token string
	// uid is that of every state; damaged are keys that no page has.
	uid     string
	damaged []string
}

func (s *smallAnswers) edit(message proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch message := message.(type) {
	case *pb.GetStateRequest:
		s.token, message.PageToken = message.PageToken, ""
	case *pb.GetStateResponse:
		s.page(message)
	case *pb.UpdateStateResponse:
		message.StateForm, message.StateOmitted = nil, true
	case *pb.ListSessionsResponse:
		for _, one := range message.Sessions {
			withoutStateOf(one)
		}
	case interface{ GetSession() *pb.Session }:
		withoutStateOf(message.GetSession())
	}
}

func withoutStateOf(stored *pb.Session) {
	if stored.GetStateForm() != nil {
		stored.StateForm, stored.Versions, stored.StateOmitted, stored.Uid = nil, nil, true, ""
	}
}

func (s *smallAnswers) page(answer *pb.GetStateResponse) {
	state := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(answer.GetStateJson()), &state) != nil {
		return
	}
	keys := slices.Sorted(maps.Keys(state))
	at, _ := strconv.Atoi(s.token)
	answer.Uid, answer.NextPageToken, answer.DamagedKeys = s.uid, "", nil
	if at+1 < len(keys) {
		answer.NextPageToken = strconv.Itoa(at + 1)
	}
	if at < len(keys) {
		text, _ := json.Marshal(map[string]json.RawMessage{keys[at]: state[keys[at]]})
		answer.StateForm = &pb.GetStateResponse_StateJson{StateJson: string(text)}
		answer.Versions = map[string]int64{keys[at]: answer.Versions[keys[at]]}
	}
	if at < len(s.damaged) {
		answer.DamagedKeys = s.damaged[at : at+1]
	}
}

// TestStateInPages reads state that does not fit into an answer, wherever a session object or state is returned.
func TestStateInPages(t *testing.T) {
	server := startServer(t, "memory:")
	want := map[string]any{"a": 1.0, "app:b": "x", "c": nil, "user:d": []any{true}}
	for _, stale := range staleModes {
		p := startProxy(t, server.Address, &proxy{edit: (&smallAnswers{}).edit})
		service := dial(t, p.address, sessiond.WithStaleness(stale))
		check := func(t *testing.T, got map[string]any) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the state (-want +got):\n%s", diff)
			}
		}
		for name, object := range origins {
			if name == "read as of an event" {
				continue // TestStateAsOfAnEventInPages
			}
			t.Run(string(stale)+" "+name, func(t *testing.T) {
				got := object(t, service, t.Name())
				if _, err := service.UpdateState(t.Context(), sessiond.Scope(sessiond.KeyOf(got)), sessiond.Delta{
					Set: want, Operations: []sessiond.Operation{sessiond.Remove{Key: "k"}},
				}); err != nil {
					t.Fatal(err)
				}
				check(t, stateOf(get(t, service, t.Name())))
			})
		}
		t.Run(string(stale), func(t *testing.T) {
			s := create(t, service, t.Name(), want)
			check(t, stateOf(s))
			scope := sessiond.Scope(sessiond.KeyOf(s))
			state, err := service.GetState(t.Context(), scope)
			if err != nil {
				t.Fatal(err)
			}
			check(t, state)
			if state, err = service.UpdateState(t.Context(), scope, sessiond.Delta{Set: map[string]any{"a": 1.0}}); err != nil {
				t.Fatal(err)
			}
			check(t, state)
			if err := service.Refresh(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			check(t, stateOf(s))
			// The changes of others come with an append, except where the object advances no further than its own events.
			if _, err := connect(t, server).UpdateState(t.Context(), sessiond.Scope{AppName: app}, sessiond.Delta{Set: map[string]any{"app:b": "y"}}); err != nil {
				t.Fatal(err)
			}
			appendTo(t, service, s, textEvent(t, "x"))
			shared := map[bool]any{true: "x", false: "y"}[stale == sessiond.Refuse]
			if got := stateOf(s)["app:b"]; got != shared {
				t.Errorf("after an append, app:b is %v, want %v", got, shared)
			}
			if stale == sessiond.Conflict {
				appendTo(t, service, s, deltaEvent(t, map[string]any{"app:b": "z"}))
				sent := p.sent("AppendEvent")
				checks := sent[len(sent)-1].(*pb.AppendEventRequest).Precondition.Keys
				if _, versioned := checks[0].Condition.(*pb.KeyCheck_Version); !versioned {
					t.Errorf("the condition is %v, want the version that the page had", checks[0])
				}
			}
		})
	}
}

// TestStateAsOfAnEventInPages fails instead of returning the state of another moment.
func TestStateAsOfAnEventInPages(t *testing.T) {
	p := startProxy(t, startServer(t, "memory:").Address, &proxy{edit: (&smallAnswers{}).edit})
	service := dial(t, p.address)
	create(t, service, "s", map[string]any{"a": 1})
	_, err := service.GetAsOf(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "s"}, 0)
	if err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("GetAsOf() = %v", err)
	}
}

// TestPagesOfAnotherLife does not mix the state of two sessions.
func TestPagesOfAnotherLife(t *testing.T) {
	small := &smallAnswers{uid: "life-2"}
	service := dial(t, startProxy(t, startServer(t, "memory:").Address, &proxy{edit: small.edit}).address)
	_, err := service.Create(t.Context(), &session.CreateRequest{AppName: app, UserID: user, SessionID: "s", State: map[string]any{"a": 1}})
	if !errors.Is(err, sessiond.ErrStale) {
		t.Errorf("Create() = %v, want ErrStale", err)
	}
	if listed, err := service.List(t.Context(), &session.ListRequest{AppName: app}); err != nil || len(listed.Sessions) != 0 {
		t.Errorf("List() = %v, %v, want no session of another life", listed, err)
	}
}

// TestDamagedKeys warns with the names of shared keys that are missing from a state.
func TestDamagedKeys(t *testing.T) {
	server := startServer(t, "memory:")
	damage := func(message proto.Message) {
		names := []string{"app:x", "user:y"}
		switch message := message.(type) {
		case *pb.GetStateResponse:
			message.DamagedKeys = names
		case *pb.UpdateStateResponse:
			message.DamagedKeys = names
		case *pb.ListSessionsResponse:
			for _, one := range message.Sessions {
				one.DamagedKeys = names
			}
		case interface{ GetSession() *pb.Session }:
			if stored := message.GetSession(); stored.GetStateForm() != nil {
				stored.DamagedKeys = names
			}
		}
	}
	var log bytes.Buffer
	warned := func(t *testing.T, call string) {
		t.Helper()
		if !strings.Contains(log.String(), `"keys":["app:x","user:y"]`) {
			t.Errorf("%s has logged %q", call, log.String())
		}
		log.Reset()
	}
	logger := sessiond.WithLogger(slog.New(slog.NewJSONHandler(&log, nil)))
	service := dial(t, startProxy(t, server.Address, &proxy{edit: damage}).address, logger)
	for name, object := range origins {
		object(t, service, name)
		warned(t, name)
	}
	scope := sessiond.Scope(sessiond.KeyOf(create(t, service, "s", nil)))
	log.Reset()
	if _, err := service.GetState(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	warned(t, "GetState")
	if _, err := service.UpdateState(t.Context(), scope, sessiond.Delta{}); err != nil {
		t.Fatal(err)
	}
	warned(t, "UpdateState")

	small := &smallAnswers{damaged: []string{"app:x", "user:y"}}
	service = dial(t, startProxy(t, server.Address, &proxy{edit: small.edit}).address, logger)
	create(t, service, "pages", map[string]any{"a": 1, "b": 2, "c": 3})
	warned(t, "pages")
}
