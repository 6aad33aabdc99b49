package sessiond_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	sessiond "github.com/sessiond/sessiond/clients/go"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// staleModes are the modes in which an object writes.
var staleModes = []sessiond.Staleness{sessiond.Merge, sessiond.Conflict, sessiond.Refuse}

// write is a call that changes a session through an object of it.
type write struct {
	// method is the RPC that makes the change.
	method string
	call   func(context.Context, *sessiond.Service, session.Session) error
}

// writes are all calls that change a session through an object, or through the key of one.
func writes(t *testing.T) map[string]write {
	t.Helper()
	return map[string]write{
		"AppendEvent": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			return service.AppendEvent(ctx, s, deltaEvent(t, map[string]any{"k": "late"}))
		}},
		"AppendEventWith": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			return service.AppendEventWith(ctx, s, textEvent(t, "late"), sessiond.Increment{Key: "n", By: 1})
		}},
		"Change": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.Change(ctx, s, sessiond.Delta{Set: map[string]any{"k": "late"}})
			return err
		}},
		"Increment": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.Increment(ctx, s, "app:n", 1)
			return err
		}},
		"AppendToList": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.AppendToList(ctx, s, "list", []any{"late"}, 0)
			return err
		}},
		"SetIfAbsent": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.SetIfAbsent(ctx, s, "user:late", true)
			return err
		}},
		"Merge": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.Merge(ctx, s, "object", map[string]any{"late": true})
			return err
		}},
		"Remove": {"AppendEvent", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			return service.Remove(ctx, s, "k")
		}},
		"Rewind": {"RewindSession", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.Rewind(ctx, sessiond.KeyOf(s), 0)
			return err
		}},
		"Fork": {"ForkSession", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.Fork(ctx, sessiond.ForkRequest{Source: sessiond.KeyOf(s)})
			return err
		}},
		"Expire": {"UpdateSession", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.Expire(ctx, sessiond.KeyOf(s), time.Hour)
			return err
		}},
		"ExpireAt": {"UpdateSession", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			_, err := service.ExpireAt(ctx, sessiond.KeyOf(s), time.Time{})
			return err
		}},
		"UpdateState": {"UpdateState", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			scope := sessiond.Scope(sessiond.KeyOf(s))
			_, err := service.UpdateState(ctx, scope, sessiond.Delta{Set: map[string]any{"k": "late"}})
			return err
		}},
		"DeleteSession": {"DeleteSession", func(ctx context.Context, service *sessiond.Service, s session.Session) error {
			return service.DeleteSession(ctx, sessiond.KeyOf(s))
		}},
	}
}

// origins are the ways to get a session object.
var origins = map[string]func(*testing.T, *sessiond.Service, string) session.Session{
	"created": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		return create(t, service, id, map[string]any{"k": "old"})
	},
	"read": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		create(t, service, id, map[string]any{"k": "old"})
		return get(t, service, id)
	},
	"read as of an event": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		create(t, service, id, map[string]any{"k": "old"})
		found, err := service.GetAsOf(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: id}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return found.Session
	},
	"listed": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		create(t, service, id, map[string]any{"k": "old"})
		listed, err := service.List(t.Context(), &session.ListRequest{AppName: app, UserID: user})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range listed.Sessions {
			if one.ID() == id {
				return one
			}
		}
		t.Fatalf("%q is not in the list", id)
		return nil
	},
	"forked": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		source := create(t, service, id+" source", map[string]any{"k": "old"})
		forked, err := service.Fork(t.Context(), sessiond.ForkRequest{Source: sessiond.KeyOf(source), SessionID: id})
		if err != nil {
			t.Fatal(err)
		}
		return forked
	},
	"rewound": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		created := create(t, service, id, map[string]any{"k": "old"})
		rewound, err := service.Rewind(t.Context(), sessiond.KeyOf(created), 0)
		if err != nil {
			t.Fatal(err)
		}
		return rewound
	},
	"appended to": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		created := create(t, service, id, map[string]any{"k": "old"})
		appendTo(t, service, created, textEvent(t, "x"))
		return created
	},
	"refreshed": func(t *testing.T, service *sessiond.Service, id string) session.Session {
		created := create(t, service, id, map[string]any{"k": "old"})
		if err := service.Refresh(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		return created
	},
}

// withLife makes the server of a proxy name one life of every session, and check none. It works with servers that have
// lives of their own, too.
func withLife(uid string) func(proto.Message) {
	return func(message proto.Message) {
		if sent, ok := message.(interface{ GetPrecondition() *pb.Precondition }); ok && sent.GetPrecondition() != nil {
			sent.GetPrecondition().Uid = ""
		}
		switch answer := message.(type) {
		case interface{ GetSession() *pb.Session }:
			if answer.GetSession() != nil {
				answer.GetSession().Uid = uid
			}
		case *pb.ListSessionsResponse:
			for _, one := range answer.Sessions {
				one.Uid = uid
			}
		}
	}
}

func sentUID(t *testing.T, p *proxy, method string) string {
	t.Helper()
	sent := p.sent(method)
	if len(sent) == 0 {
		t.Fatalf("no %s was sent", method)
	}
	return sent[len(sent)-1].(interface{ GetPrecondition() *pb.Precondition }).GetPrecondition().GetUid()
}

// TestWritesNameTheirLife looks at every write through an object, in every mode, wherever the object comes from.
func TestWritesNameTheirLife(t *testing.T) {
	server := startServer(t, "memory:")
	for _, life := range []string{"life-1", ""} {
		p := startProxy(t, server.Address, &proxy{edit: withLife(life)})
		for _, stale := range staleModes {
			service := dial(t, p.address, sessiond.WithStaleness(stale))
			for origin, object := range origins {
				for name, write := range writes(t) {
					t.Run(string(stale)+" "+origin+" "+name+" "+life, func(t *testing.T) {
						s := object(t, service, t.Name())
						if got := sessiond.KeyOf(s).UID; got != life {
							t.Fatalf("the object has the UID %q, want %q", got, life)
						}
						if err := write.call(t.Context(), service, s); err != nil {
							t.Fatal(err)
						}
						if got := sentUID(t, p, write.method); got != life {
							t.Errorf("%s was sent with the UID %q, want %q", write.method, got, life)
						}
					})
				}
			}
		}
	}
}

// TestReplacedSession takes the server's refusal as a stale session, without a second attempt, and leaves the object alone.
func TestReplacedSession(t *testing.T) {
	server := startServer(t, "memory:")
	for _, stale := range staleModes {
		for name, write := range writes(t) {
			t.Run(string(stale)+" "+name, func(t *testing.T) {
				refused := refusal(codes.Aborted, "SESSION_REPLACED", "no")
				p := startProxy(t, server.Address, &proxy{edit: withLife("life-1"), before: firstCalls(write.method, 1000, refused)})
				service := dial(t, p.address, sessiond.WithStaleness(stale))
				s := create(t, service, t.Name(), map[string]any{"k": "old"})
				err := write.call(t.Context(), service, s)
				failure, _ := errors.AsType[*sessiond.Error](err)
				if !errors.Is(err, sessiond.ErrStale) || failure.Attempts != 1 || failure.MayBeApplied {
					t.Errorf("%v (%+v), want ErrStale after one attempt", err, failure)
				}
				if len(p.sent(write.method)) != 1 || s.Events().Len() != 0 || stateOf(s)["k"] != "old" {
					t.Errorf("%d calls, the object has %v and %v", len(p.sent(write.method)), stateOf(s), ids(s))
				}
			})
		}
	}
}

// TestRefreshOfReplacedSession does not turn the object of a deleted session into one of its successor.
func TestRefreshOfReplacedSession(t *testing.T) {
	var life atomic.Value
	life.Store("life-1")
	edit := func(message proto.Message) { withLife(life.Load().(string))(message) }
	p := startProxy(t, startServer(t, "memory:").Address, &proxy{edit: edit})
	service := dial(t, p.address)
	s := create(t, service, "s", map[string]any{"k": "old"})
	life.Store("life-2")
	if err := service.Refresh(t.Context(), s); !errors.Is(err, sessiond.ErrStale) {
		t.Errorf("Refresh() = %v, want ErrStale", err)
	}
	if got := sessiond.KeyOf(s).UID; got != "life-1" {
		t.Errorf("the object has the UID %q", got)
	}
	if got := sessiond.KeyOf(get(t, service, "s")).UID; got != "life-2" {
		t.Errorf("a session that was read has the UID %q", got)
	}
}

// TestLateWriter writes from the object of a session that was deleted and created anew with as many events.
func TestLateWriter(t *testing.T) {
	for _, store := range stores {
		server := startServer(t, store.uri)
		for _, stale := range staleModes {
			service := connect(t, server, sessiond.WithStaleness(stale))
			for name, write := range writes(t) {
				t.Run(store.name+" "+string(stale)+" "+name, func(t *testing.T) {
					create(t, service, t.Name(), map[string]any{"k": "old"})
					appendTo(t, service, get(t, service, t.Name()), deltaEvent(t, map[string]any{"k": "secret"}))
					late := get(t, service, t.Name())
					if sessiond.KeyOf(late).UID == "" {
						t.Fatal("the session has no UID")
					}
					request := &session.DeleteRequest{AppName: app, UserID: user, SessionID: t.Name()}
					if err := service.Delete(t.Context(), request); err != nil {
						t.Fatal(err)
					}
					appendTo(t, service, create(t, service, t.Name(), map[string]any{"k": "new"}), textEvent(t, "new"))

					err := write.call(t.Context(), service, late)
					// A deletion of a session that is gone has nothing to do.
					if isDeletion := name == "DeleteSession"; isDeletion != (err == nil) || err != nil && !errors.Is(err, sessiond.ErrStale) {
						t.Errorf("%s = %v", name, err)
					}
					found := get(t, service, t.Name())
					if stateOf(found)["k"] != "new" || found.Events().Len() != 1 {
						t.Errorf("the new session has %v and %v", stateOf(found), ids(found))
					}
					if err := service.Refresh(t.Context(), late); !errors.Is(err, sessiond.ErrStale) {
						t.Errorf("Refresh() = %v, want ErrStale", err)
					}
				})
			}
		}
	}
}
