package sessiond_test

import (
	"errors"
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/protobuf/proto"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/testserver"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// withoutVersions makes a proxy's server an older one, which does not know versions in sessions.
func withoutVersions(message proto.Message) {
	fields := message.ProtoReflect().Descriptor().Fields()
	if asked := fields.ByName("include_versions"); asked != nil {
		message.ProtoReflect().Clear(asked)
	}
}

// withoutState removes the state from responses to appends, as the server does if it is too large.
func withoutState(message proto.Message) {
	if response, ok := message.(*pb.AppendEventResponse); ok {
		response.Session.StateForm, response.Session.Versions = nil, nil
	}
}

// TestVersionsOfAnsweredState asks for versions where appends check them, and needs no call for them.
func TestVersionsOfAnsweredState(t *testing.T) {
	server := startServer(t, "memory:")
	for _, stale := range []sessiond.Staleness{sessiond.Conflict, sessiond.Merge, sessiond.Refuse} {
		t.Run(string(stale), func(t *testing.T) {
			p := startProxy(t, server.Address, &proxy{})
			service := dial(t, p.address, sessiond.WithStaleness(stale))
			id := string(stale)
			created := create(t, service, id, map[string]any{"k": 1, "app:k": 1, "user:k": 1})
			write := func(object session.Session, value any) {
				t.Helper()
				appendTo(t, service, object, deltaEvent(t, map[string]any{"k": value, "app:k": value, "user:k": value}))
			}
			write(created, 2)
			write(created, 3)
			found := get(t, service, id)
			write(found, 4)
			if err := service.Refresh(t.Context(), created); err != nil {
				t.Fatal(err)
			}
			write(created, 5)

			if reads, calls := len(p.sent("GetSession")), len(p.sent("GetState")); reads != 2 || calls != 0 {
				t.Errorf("%d GetSession and %d GetState, want 2 and 0", reads, calls)
			}
			for _, method := range []string{"CreateSession", "GetSession", "AppendEvent"} {
				for _, sent := range p.sent(method) {
					request := sent.(interface{ GetIncludeVersions() bool })
					if request.GetIncludeVersions() != (stale == sessiond.Conflict) {
						t.Errorf("%s asks for versions: %v", method, request.GetIncludeVersions())
					}
				}
			}
			if stale != sessiond.Conflict {
				return
			}
			for _, sent := range p.sent("AppendEvent") {
				checks := sent.(*pb.AppendEventRequest).GetPrecondition().GetKeys()
				if len(checks) != 3 {
					t.Errorf("%d checks, want 3", len(checks))
				}
				for _, check := range checks {
					if _, ok := check.Condition.(*pb.KeyCheck_Version); !ok {
						t.Errorf("the condition on %q is %v, want a version", check.Key, check.Condition)
					}
				}
			}
		})
	}
}

// TestConflictWithChangedBackValue refuses a write to a key that others have changed and changed back, however the object
// got its value.
func TestConflictWithChangedBackValue(t *testing.T) {
	keys := []string{"k", "app:k", "user:k"}
	set := func(value any) map[string]any {
		return map[string]any{"k": value, "app:k": value, "user:k": value}
	}
	for _, store := range stores {
		server := startServer(t, store.uri)
		older := startProxy(t, server.Address, &proxy{edit: withoutVersions})
		others := connect(t, server)
		for name, object := range map[string]func(*testing.T, *sessiond.Service, string) session.Session{
			"created": func(t *testing.T, service *sessiond.Service, id string) session.Session {
				return create(t, service, id, set("old"))
			},
			"read": func(t *testing.T, service *sessiond.Service, id string) session.Session {
				create(t, others, id, set("old"))
				return get(t, service, id)
			},
			"appended": func(t *testing.T, service *sessiond.Service, id string) session.Session {
				object := create(t, service, id, nil)
				if err := service.Refresh(t.Context(), object); err != nil {
					t.Fatal(err)
				}
				appendTo(t, service, object, deltaEvent(t, set("old")))
				return object
			},
			"received with an append": func(t *testing.T, service *sessiond.Service, id string) session.Session {
				object := create(t, service, id, nil)
				appendTo(t, others, get(t, others, id), deltaEvent(t, set("old")))
				appendTo(t, service, object, textEvent(t, "x"))
				return object
			},
			"read as of an event": func(t *testing.T, service *sessiond.Service, id string) session.Session {
				create(t, others, id, set("old"))
				request := &session.GetRequest{AppName: app, UserID: user, SessionID: id}
				found, err := service.GetAsOf(t.Context(), request, 0)
				if err != nil {
					t.Fatal(err)
				}
				return found.Session
			},
		} {
			for _, target := range []struct {
				name, address string
				stale         bool
			}{{"current", server.Address, true}, {"older", older.address, false}} {
				t.Run(store.name+" "+name+" "+target.name, func(t *testing.T) {
					service := dial(t, target.address, sessiond.WithStaleness(sessiond.Conflict))
					clearShared(t, server)
					mine := object(t, service, t.Name())
					other := get(t, others, t.Name())
					appendTo(t, others, other, deltaEvent(t, set("theirs")))
					for _, key := range keys {
						err := service.AppendEvent(t.Context(), mine, deltaEvent(t, map[string]any{key: "mine"}))
						if !errors.Is(err, sessiond.ErrStale) {
							t.Errorf("%s was changed: AppendEvent() = %v, want ErrStale", key, err)
						}
					}
					appendTo(t, others, other, deltaEvent(t, set("old")))
					for _, key := range keys {
						err := service.AppendEvent(t.Context(), mine, deltaEvent(t, map[string]any{key: "mine"}))
						if errors.Is(err, sessiond.ErrStale) != target.stale || (err != nil) != target.stale {
							t.Errorf("%s was changed back: AppendEvent() = %v, want stale: %v", key, err, target.stale)
						}
					}
				})
			}
		}
	}
}

// clearShared removes what an earlier test has left in the state that sessions share.
func clearShared(t *testing.T, server *testserver.Server) {
	t.Helper()
	var removal sessiond.Delta
	for _, key := range []string{"app:k", "user:k", "app:x", "user:u", "user:v"} {
		removal.Operations = append(removal.Operations, sessiond.Remove{Key: key})
	}
	if _, err := connect(t, server).UpdateState(t.Context(), sessiond.Scope{AppName: app, UserID: user}, removal); err != nil {
		t.Fatal(err)
	}
}

// TestVersionIsThatOfTheShownValue changes a key between a read and the append of another key. Unless that append brings
// the new value into the object, a later write of the key is refused.
func TestVersionIsThatOfTheShownValue(t *testing.T) {
	server := startServer(t, "memory:")
	others := connect(t, server)
	for name, test := range map[string]struct {
		edit  func(proto.Message)
		local any
		set   []any
		shown any
		stale bool
	}{
		"the append brings the value":            {set: []any{"theirs"}, shown: "theirs"},
		"the append brings an equal value":       {set: []any{"theirs", "old"}, shown: "old"},
		"the response has no state":              {edit: withoutState, set: []any{"theirs"}, shown: "old", stale: true},
		"no state, and changed back":             {edit: withoutState, set: []any{"theirs", "old"}, shown: "old", stale: true},
		"an uncommitted value stays":             {local: "mine", set: []any{"theirs"}, shown: "mine", stale: true},
		"an uncommitted value, and changed back": {local: "mine", set: []any{"theirs", "old"}, shown: "mine", stale: true},
		"nobody has changed it":                  {local: "mine", shown: "mine"},
	} {
		for _, key := range []string{"k", "app:k", "user:k"} {
			t.Run(name+" "+key, func(t *testing.T) {
				p := startProxy(t, server.Address, &proxy{edit: test.edit})
				service := dial(t, p.address, sessiond.WithStaleness(sessiond.Conflict))
				create(t, others, t.Name(), map[string]any{key: "old"})
				object, other := get(t, service, t.Name()), get(t, others, t.Name())
				if test.local != nil {
					if err := object.State().Set(key, test.local); err != nil {
						t.Fatal(err)
					}
				}
				for _, value := range test.set {
					appendTo(t, others, other, deltaEvent(t, map[string]any{key: value}))
				}
				appendTo(t, service, object, deltaEvent(t, map[string]any{"another": 1}))
				if shown := stateOf(object)[key]; shown != test.shown {
					t.Errorf("the object shows %v, want %v", shown, test.shown)
				}
				err := service.AppendEvent(t.Context(), object, deltaEvent(t, map[string]any{key: "mine"}))
				if errors.Is(err, sessiond.ErrStale) != test.stale || (err != nil) != test.stale {
					t.Errorf("AppendEvent() = %v, want stale: %v", err, test.stale)
				}
			})
		}
	}
}

// TestValueOfOwnWriteWithoutState compares the value that the caller has written itself, if the response had no state.
func TestValueOfOwnWriteWithoutState(t *testing.T) {
	server := startServer(t, "memory:")
	others := connect(t, server)
	p := startProxy(t, server.Address, &proxy{edit: withoutState})
	service := dial(t, p.address, sessiond.WithStaleness(sessiond.Conflict))
	object := create(t, service, "s", map[string]any{"app:k": 1})
	for value := 2; value < 4; value++ {
		appendTo(t, service, object, deltaEvent(t, map[string]any{"app:k": value}))
	}
	appendTo(t, others, get(t, others, "s"), deltaEvent(t, map[string]any{"app:k": 9}))
	err := service.AppendEvent(t.Context(), object, deltaEvent(t, map[string]any{"app:k": 4}))
	if !errors.Is(err, sessiond.ErrStale) {
		t.Errorf("AppendEvent() = %v, want ErrStale", err)
	}
}
