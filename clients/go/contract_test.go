package sessiond_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/adk/v2/session/sessiontestsuite"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// databaseService returns the ADK's own service on SQLite.
func databaseService(t testing.TB, file string) session.Service {
	t.Helper()
	service, err := database.NewSessionService(sqlite.Open(file), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := database.AutoMigrate(service); err != nil {
		t.Fatal(err)
	}
	return service
}

// services returns ours and the ADK's two, which must agree in the tests that use it.
func services(t *testing.T) map[string]session.Service {
	return map[string]session.Service{
		"sessiond": inMemory(t),
		"memory":   session.InMemoryService(),
		"database": databaseService(t, t.TempDir()+"/adk.db"),
	}
}

// TestSameAsADK compares what this service and the ADK's own return, where those agree with each other.
func TestSameAsADK(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	get := func(ctx context.Context, s session.Service, request session.GetRequest) (sessiontestsuite.ExpectedSession, error) {
		request.AppName, request.UserID, request.SessionID = app, user, "s"
		found, err := s.Get(ctx, &request)
		if err != nil {
			return sessiontestsuite.ExpectedSession{}, err
		}
		return sessiontestsuite.Snapshot(found.Session), nil
	}
	for name, scenario := range map[string]func(context.Context, session.Service) (any, error){
		"filters": func(ctx context.Context, s session.Service) (any, error) {
			created, err := s.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: "s"})
			if err != nil {
				return nil, err
			}
			for n := range 5 {
				event := &session.Event{ID: fmt.Sprint("e", n), Author: "a", Timestamp: at.Add(time.Duration(n) * time.Second)}
				if err := s.AppendEvent(ctx, created.Session, event); err != nil {
					return nil, err
				}
			}
			var all []any
			for _, request := range []session.GetRequest{
				{},
				{NumRecentEvents: 2},
				{NumRecentEvents: -1},
				{NumRecentEvents: 99},
				{After: at.Add(2 * time.Second)},
				{After: at.Add(time.Hour)},
				{After: at.Add(-time.Hour)},
				{After: at.Add(time.Second), NumRecentEvents: 2},
				{After: at.Add(4 * time.Second), NumRecentEvents: 3},
			} {
				found, err := get(ctx, s, request)
				if err != nil {
					return nil, err
				}
				all = append(all, found)
			}
			return all, nil
		},
		"state": func(ctx context.Context, s session.Service) (any, error) {
			state := map[string]any{"a": "x", "app:b": true, "user:c": []any{"y", nil}, "app:": 1.5, "other:x": map[string]any{}}
			created, err := s.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: "s", State: state})
			if err != nil {
				return nil, err
			}
			event := session.NewEvent(ctx, "inv")
			event.Timestamp = at
			event.ID = "e"
			event.Actions.StateDelta = map[string]any{"a": nil, "user:c": 2.0, "temp:t": "z", "new": "<&>"}
			if err := s.AppendEvent(ctx, created.Session, event); err != nil {
				return nil, err
			}
			caller := sessiontestsuite.Snapshot(created.Session)
			// The caller's state keeps `temp:` keys, the ADK's services disagree about the event's delta.
			delete(caller.State, "temp:t")
			caller.Events = nil
			read, err := get(ctx, s, session.GetRequest{})
			if err != nil {
				return nil, err
			}
			for _, event := range read.Events {
				delete(event.Actions.StateDelta, "temp:t")
			}
			created, err = s.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: "other"})
			if err != nil {
				return nil, err
			}
			return []any{caller, read, sessiontestsuite.Snapshot(created.Session), created.Session.ID()}, nil
		},
		"ids": func(ctx context.Context, s session.Service) (any, error) {
			var all []any
			for _, request := range []*session.CreateRequest{
				{AppName: app, UserID: user, SessionID: "  "},
				{AppName: app, UserID: user, SessionID: "s"},
				{AppName: app, UserID: "other", SessionID: "s"},
				{AppName: app, UserID: "", SessionID: "s"},
				{AppName: "", UserID: user},
				{AppName: app, UserID: user, SessionID: "s"},
			} {
				created, err := s.Create(ctx, request)
				if err != nil {
					all = append(all, "error")
					continue
				}
				all = append(all, created.Session.ID())
			}
			for _, err := range []error{
				s.Delete(ctx, &session.DeleteRequest{AppName: app, UserID: user, SessionID: "missing"}),
				s.Delete(ctx, &session.DeleteRequest{AppName: app, UserID: user, SessionID: ""}),
				s.Delete(ctx, &session.DeleteRequest{AppName: app, UserID: user, SessionID: "s"}),
			} {
				all = append(all, err == nil)
			}
			for _, request := range []*session.ListRequest{
				{AppName: app}, {AppName: app, UserID: user}, {AppName: app, UserID: "nobody"}, {AppName: "none"}, {},
			} {
				listed, err := s.List(ctx, request)
				if err != nil {
					all = append(all, "error")
					continue
				}
				found := []string{}
				for _, one := range listed.Sessions {
					found = append(found, one.UserID()+"/"+one.ID(), fmt.Sprint(one.Events().Len()))
				}
				// The database has no order.
				slices.Sort(found)
				all = append(all, listed.Sessions != nil, found)
			}
			return all, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]any{}
			for name, service := range services(t) {
				result, err := scenario(t.Context(), service)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				found[name] = result
			}
			for _, name := range []string{"memory", "database"} {
				if diff := cmp.Diff(found[name], found["sessiond"]); diff != "" {
					t.Errorf("-%s +sessiond:\n%s", name, diff)
				}
			}
		})
	}
}

// TestGivenIDTakesNoUUID counts the draws of a provider that replays the ids of a recorded run in order.
func TestGivenIDTakesNoUUID(t *testing.T) {
	service := inMemory(t)
	drawn := 0
	ctx := platform.WithUUIDProvider(t.Context(), func() string {
		drawn++
		return fmt.Sprintf("drawn-%d", drawn)
	})
	for given, want := range map[string]string{"given": "given", "": "drawn-1"} {
		created, err := service.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: given})
		if err != nil {
			t.Fatal(err)
		}
		if got := created.Session.ID(); got != want {
			t.Errorf("the id is %q, want %q", got, want)
		}
	}
	if drawn != 1 {
		t.Errorf("%d ids were drawn, want 1", drawn)
	}
}

func TestErrors(t *testing.T) {
	service := inMemory(t)
	ctx := t.Context()
	s := create(t, service, "s", nil)

	_, err := service.Get(ctx, &session.GetRequest{AppName: app, UserID: "other", SessionID: "s"})
	if !errors.Is(err, sessiond.ErrNotFound) || !strings.Contains(err.Error(), `session "s" not found`) || status.Code(err) != codes.NotFound {
		t.Errorf("Get() of another user's session = %v", err)
	}
	_, err = service.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: "s"})
	failure, _ := errors.AsType[*sessiond.Error](err)
	if !errors.Is(err, sessiond.ErrAlreadyExists) || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("Create() with a taken id = %v", err)
	}
	if failure.Reason != "SESSION_EXISTS" || failure.Metadata["session_id"] != "s" || failure.Attempts != 1 {
		t.Errorf("Create() with a taken id = %+v", failure)
	}
	appendTo(t, service, s, &session.Event{ID: "e", Author: "a"})
	err = service.AppendEvent(ctx, s, &session.Event{ID: "e", Author: "b"})
	if !errors.Is(err, sessiond.ErrAlreadyExists) || s.Events().Len() != 1 {
		t.Errorf("AppendEvent() of another event with the same id = %v", err)
	}
	err = service.AppendEvent(ctx, s, &session.Event{ID: strings.Repeat("x", 129), InvocationID: strings.Repeat("x", 129)})
	failure, _ = errors.AsType[*sessiond.Error](err)
	if !errors.Is(err, sessiond.ErrInvalid) || len(failure.Violations) != 2 || !strings.Contains(err.Error(), failure.Violations[1].Field) {
		t.Errorf("AppendEvent() with two bad ids = %v", err)
	}
	err = service.AppendEvent(ctx, s, deltaEvent(t, map[string]any{"good": 1, "user:bad": func() {}}))
	value, _ := errors.AsType[*sessiond.StateValueError](err)
	if value == nil || value.Key != "user:bad" || s.Events().Len() != 1 {
		t.Errorf("AppendEvent() of a function = %v", err)
	}
	if err := service.AppendEvent(ctx, s, &session.Event{Timestamp: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("AppendEvent() accepts the year 10000")
	}
	if err := service.AppendEvent(ctx, s, nil); err == nil {
		t.Error("AppendEvent() accepts no event")
	}
	if err := service.AppendEvent(ctx, nil, textEvent(t, "x")); err == nil {
		t.Error("AppendEvent() accepts no session")
	}
	other, err := session.InMemoryService().Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.AppendEvent(ctx, other.Session, textEvent(t, "x")); err == nil || !strings.Contains(err.Error(), "unexpected session type") {
		t.Errorf("AppendEvent() to a session of another service = %v", err)
	}
	if err := service.Delete(ctx, &session.DeleteRequest{AppName: app, UserID: user, SessionID: "s"}); err != nil {
		t.Fatal(err)
	}
	if err := service.AppendEvent(ctx, s, textEvent(t, "x")); !errors.Is(err, sessiond.ErrNotFound) {
		t.Errorf("AppendEvent() to a deleted session = %v", err)
	}
	if err := service.Refresh(ctx, s); !errors.Is(err, sessiond.ErrNotFound) {
		t.Errorf("Refresh() of a deleted session = %v", err)
	}
}

// TestPages reads and lists more than fits into one response.
func TestPages(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			s := create(t, service, "s", nil)
			want := []string{}
			large := strings.Repeat("x", 600_000)
			for n := range 20 {
				event := textEvent(t, large)
				event.ID = fmt.Sprint("e", n)
				appendTo(t, service, s, event)
				want = append(want, event.ID)
			}
			if diff := cmp.Diff(want, ids(get(t, service, "s"))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			recent, err := service.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "s", NumRecentEvents: 12})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[8:], ids(recent.Session)); diff != "" {
				t.Errorf("recent events (-want +got):\n%s", diff)
			}
			value := strings.Repeat("y", 200_000)
			for n := range 30 {
				create(t, service, fmt.Sprintf("l%02d", n), map[string]any{"k": value})
			}
			listed, err := service.List(t.Context(), &session.ListRequest{AppName: app, UserID: user})
			if err != nil {
				t.Fatal(err)
			}
			if len(listed.Sessions) != 31 {
				t.Fatalf("%d sessions, want 31", len(listed.Sessions))
			}
			for n, one := range listed.Sessions[:30] {
				if one.ID() != fmt.Sprintf("l%02d", n) || stateOf(one)["k"] != value {
					t.Errorf("session %d is %q", n, one.ID())
				}
			}
		})
	}
}

func TestUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s.sock"
	startServerOn(t, "memory:", "unix:"+path)
	for _, address := range []string{"unix:" + path, "sessiond://" + path} {
		service := dial(t, address)
		if _, err := service.List(t.Context(), &session.ListRequest{AppName: app}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
