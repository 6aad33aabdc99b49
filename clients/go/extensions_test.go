package sessiond_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/session"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

var sessionKey = sessiond.Key{AppName: app, UserID: user, SessionID: "s"}

func reasonOf(err error) string {
	if failure, ok := errors.AsType[*sessiond.Error](err); ok {
		return failure.Reason
	}
	return ""
}

func TestOperations(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			ctx := t.Context()
			s := create(t, service, "s", map[string]any{"draft": 1, "profile": map[string]any{"street": "x", "zip": "0150"}})

			if n, err := service.Increment(ctx, s, "app:n", 41); err != nil || n != "41" {
				t.Errorf("Increment() = %v, %v", n, err)
			}
			if n, err := service.Increment(ctx, s, "app:n", -1); err != nil || n != "40" {
				t.Errorf("Increment() = %v, %v", n, err)
			}
			list, err := service.AppendToList(ctx, s, "user:seen", []any{"a", "b", "c"}, 2)
			if diff := cmp.Diff([]any{"b", "c"}, list); err != nil || diff != "" {
				t.Errorf("AppendToList(), %v (-want +got):\n%s", err, diff)
			}
			for _, value := range []string{"en", "no"} {
				if got, err := service.SetIfAbsent(ctx, s, "user:language", value); err != nil || got != "en" {
					t.Errorf("SetIfAbsent() = %v, %v", got, err)
				}
			}
			merged, err := service.Merge(ctx, s, "profile", map[string]any{"city": "Oslo", "street": nil})
			if diff := cmp.Diff(map[string]any{"city": "Oslo", "zip": "0150"}, merged); err != nil || diff != "" {
				t.Errorf("Merge(), %v (-want +got):\n%s", err, diff)
			}
			if err := service.Remove(ctx, s, "draft", "missing"); err != nil {
				t.Error(err)
			}
			event := deltaEvent(t, map[string]any{"plain": 1, "both": 1})
			err = service.AppendEventWith(ctx, s, event, sessiond.IncrementFloat{Key: "f", By: 0.5}, sessiond.Increment{Key: "both", By: 2})
			if err != nil {
				t.Fatal(err)
			}
			last := s.Events().At(s.Events().Len() - 1)
			if diff := cmp.Diff(map[string]any{"plain": 1, "both": 3.0, "f": 0.5}, last.Actions.StateDelta); diff != "" {
				t.Errorf("the event's delta (-want +got):\n%s", diff)
			}
			want := map[string]any{
				"app:n": 40.0, "user:seen": []any{"b", "c"}, "user:language": "en", "plain": 1.0, "both": 3.0, "f": 0.5,
				"profile": map[string]any{"city": "Oslo", "zip": "0150"},
			}
			stored := get(t, service, "s")
			if diff := cmp.Diff(want, stateOf(stored)); diff != "" {
				t.Errorf("the stored state (-want +got):\n%s", diff)
			}
			want["plain"] = 1
			if diff := cmp.Diff(want, stateOf(s)); diff != "" {
				t.Errorf("the caller's state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(ids(stored), ids(s)); diff != "" {
				t.Errorf("events (-stored +caller's):\n%s", diff)
			}
			removal := stored.Events().At(6).Actions.StateDelta
			if value, present := removal["draft"]; len(removal) != 1 || !present || value != nil {
				t.Errorf("the delta of the removal is %v", removal)
			}

			if _, err := service.Increment(ctx, s, "profile", 1); reasonOf(err) != "TYPE_MISMATCH" {
				t.Errorf("Increment() of an object = %v", err)
			}
			for name, operation := range map[string]sessiond.Operation{
				"nil": nil, "temp": sessiond.Remove{Key: "temp:x"}, "length": sessiond.ListAppend{Key: "l", MaxLength: -1},
				"value": sessiond.SetIfAbsent{Key: "v", Value: make(chan int)},
			} {
				if err := service.AppendEventWith(ctx, s, deltaEvent(t, nil), operation); err == nil {
					t.Errorf("%s: AppendEventWith() accepts it", name)
				}
			}
			if _, err := service.Increment(ctx, s, "temp:x", 1); err == nil {
				t.Error("Increment() of a temp: key was accepted")
			}
		})
	}
}

// TestConcurrentIncrements uses one session object per goroutine, as processes do.
func TestConcurrentIncrements(t *testing.T) {
	service := connect(t, startServer(t, "sqlite:test.db"))
	create(t, service, "s", nil)
	const writers, each = 5, 20
	var mu sync.Mutex
	sums := map[string]bool{}
	var group sync.WaitGroup
	for range writers {
		s := get(t, service, "s")
		group.Go(func() {
			for range each {
				sum, err := service.Increment(t.Context(), s, "user:turns", 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				sums[sum.String()] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if got := stateOf(get(t, service, "s"))["user:turns"]; got != float64(writers*each) || len(sums) != writers*each {
		t.Errorf("user:turns is %v with %d different sums, want %d", got, len(sums), writers*each)
	}
}

func TestStateWithoutSession(t *testing.T) {
	service := inMemory(t)
	ctx := t.Context()
	application := sessiond.Scope{AppName: app}
	alice := sessiond.Scope{AppName: app, UserID: "alice"}
	if state, err := service.GetState(ctx, alice); err != nil || state == nil || len(state) != 0 {
		t.Errorf("GetState() of a new user = %v, %v", state, err)
	}
	if _, err := service.UpdateState(ctx, application, sessiond.Delta{Set: map[string]any{"app:theme": "dark"}}); err != nil {
		t.Fatal(err)
	}
	state, err := service.UpdateState(ctx, alice, sessiond.Delta{
		Set:        map[string]any{"user:plan": "pro", "user:trial": true},
		Operations: []sessiond.Operation{sessiond.Increment{Key: "user:n", By: 2}, sessiond.Remove{Key: "user:trial"}},
	})
	want := map[string]any{"app:theme": "dark", "user:plan": "pro", "user:n": 2.0}
	if diff := cmp.Diff(want, state); err != nil || diff != "" {
		t.Errorf("UpdateState(), %v (-want +got):\n%s", err, diff)
	}
	if state, err := service.GetState(ctx, alice); err != nil || !cmp.Equal(want, state) {
		t.Errorf("GetState() = %v, %v", state, err)
	}
	_, err = service.UpdateState(ctx, application, sessiond.Delta{Set: map[string]any{"user:x": 1}})
	if reasonOf(err) != "KEY_OUTSIDE_SCOPE" || !errors.Is(err, sessiond.ErrInvalid) {
		t.Errorf("UpdateState() of another scope's key = %v", err)
	}
	for _, scope := range []sessiond.Scope{{}, {AppName: app, SessionID: "s"}} {
		if _, err := service.GetState(ctx, scope); err == nil {
			t.Errorf("GetState(%+v) accepts it", scope)
		}
	}
	missing := sessiond.Scope{AppName: app, UserID: user, SessionID: "missing"}
	if _, err := service.GetState(ctx, missing); !errors.Is(err, sessiond.ErrNotFound) {
		t.Errorf("GetState() of a missing session = %v", err)
	}
}

func TestHistory(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			ctx := t.Context()
			s := create(t, service, "s", map[string]any{"n": 0, "app:n": 0})
			for n := 1; n <= 4; n++ {
				appendTo(t, service, s, deltaEvent(t, map[string]any{"n": n, "app:n": n, fmt.Sprint("new", n): n}))
			}
			request := &session.GetRequest{AppName: app, UserID: user, SessionID: "s"}
			past, err := service.GetAsOf(ctx, request, 2)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"n": 2.0, "app:n": 2.0, "new1": 1.0, "new2": 2.0}
			if diff := cmp.Diff(want, stateOf(past.Session)); diff != "" || past.Session.Events().Len() != 2 {
				t.Errorf("GetAsOf(2) with %d events (-want +got):\n%s", past.Session.Events().Len(), diff)
			}
			if _, err := service.GetAsOf(ctx, request, 5); reasonOf(err) != "BEYOND_LAST_SEQUENCE" {
				t.Errorf("GetAsOf(5) = %v", err)
			}

			fork, err := service.Fork(ctx, sessiond.ForkRequest{Source: sessionKey, UpTo: new(int64(3))})
			if err != nil {
				t.Fatal(err)
			}
			if got := get(t, service, fork.ID()); stateOf(got)["n"] != 3.0 || stateOf(got)["app:n"] != 4.0 || got.Events().Len() != 3 {
				t.Errorf("the fork has %d events and the state %v", got.Events().Len(), stateOf(got))
			}
			if _, err := service.Fork(ctx, sessiond.ForkRequest{Source: sessionKey, SessionID: "s"}); !errors.Is(err, sessiond.ErrAlreadyExists) {
				t.Errorf("Fork() to a taken id = %v", err)
			}

			rewound, err := service.Rewind(ctx, sessionKey, 1)
			if err != nil {
				t.Fatal(err)
			}
			want = map[string]any{"n": 1.0, "app:n": 4.0, "new1": 1.0}
			if diff := cmp.Diff(want, stateOf(rewound)); diff != "" || rewound.Events().Len() != 1 {
				t.Errorf("Rewind() with %d events (-want +got):\n%s", rewound.Events().Len(), diff)
			}
			var log []string
			for event, err := range service.ListEvents(ctx, sessionKey, sessiond.EventsQuery{AfterSequence: 1, IncludeRewound: true}) {
				if err != nil {
					t.Fatal(err)
				}
				line := fmt.Sprint(event.Sequence, " ", event.Rewound)
				if event.RewindTo != nil {
					line += fmt.Sprint(" to ", *event.RewindTo)
				}
				if event.CommitTime.IsZero() || event.Event.ID == "" {
					t.Errorf("event %+v", event)
				}
				log = append(log, line)
			}
			if diff := cmp.Diff([]string{"2 true", "3 true", "4 true", "5 true to 1"}, log); diff != "" {
				t.Errorf("ListEvents() (-want +got):\n%s", diff)
			}
			for range service.ListEvents(ctx, sessionKey, sessiond.EventsQuery{}) {
				break
			}
			for _, err := range service.ListEvents(ctx, sessiond.Key{AppName: app, UserID: user, SessionID: "no"}, sessiond.EventsQuery{}) {
				if !errors.Is(err, sessiond.ErrNotFound) {
					t.Errorf("ListEvents() of a missing session = %v", err)
				}
			}

			if at, err := service.Expire(ctx, sessionKey, time.Hour); err != nil || time.Until(at) > 2*time.Hour || time.Until(at) < time.Minute {
				t.Errorf("Expire() = %v, %v", at, err)
			}
			later := time.Now().Add(48 * time.Hour).Truncate(time.Microsecond)
			if at, err := service.ExpireAt(ctx, sessionKey, later); err != nil || !at.Equal(later) {
				t.Errorf("ExpireAt() = %v, %v, want %v", at, err, later)
			}
			if at, err := service.ExpireAt(ctx, sessionKey, time.Time{}); err != nil || !at.IsZero() {
				t.Errorf("ExpireAt(never) = %v, %v", at, err)
			}
			if _, err := service.Expire(ctx, sessionKey, 0); err == nil {
				t.Error("Expire(0) was accepted")
			}
			if _, err := service.ExpireAt(ctx, sessionKey, time.Unix(1, 0)); !errors.Is(err, sessiond.ErrInvalid) {
				t.Errorf("ExpireAt() in the past = %v", err)
			}
		})
	}
}

// follow collects a watch in a goroutine, as short lines.
func follow(ctx context.Context, service *sessiond.Service, scope sessiond.Scope, options sessiond.WatchOptions) <-chan string {
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for item, err := range service.Watch(ctx, scope, options) {
			switch item := item.(type) {
			case nil:
				lines <- "error " + err.Error()
			case sessiond.Snapshot:
				lines <- fmt.Sprint("snapshot ", item.LastSequence, " ", item.State)
			case sessiond.Appended:
				lines <- fmt.Sprint("event ", item.Sequence, " ", item.Event.Actions.StateDelta)
			case sessiond.Changed:
				lines <- fmt.Sprint("changed ", item.Values, item.Removed)
			case sessiond.CaughtUp:
				lines <- "caught up"
			case sessiond.Deleted:
				lines <- "deleted"
			}
		}
	}()
	return lines
}

// expect waits for lines.
func expect(t *testing.T, lines <-chan string, want ...string) {
	t.Helper()
	for _, line := range want {
		if got, ok := <-lines; got != line || !ok {
			t.Fatalf("the watch has %q, want %q", got, line)
		}
	}
}

func TestWatch(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			s := create(t, service, "s", map[string]any{"a": 1})
			scope := sessiond.Scope{AppName: app, UserID: user, SessionID: "s"}
			lines := follow(t.Context(), service, scope, sessiond.WatchOptions{})
			expect(t, lines, "snapshot 0 map[a:1]", "caught up")
			appendTo(t, service, s, deltaEvent(t, map[string]any{"b": 2}))
			expect(t, lines, "event 1 map[b:2]")
			delta := sessiond.Delta{Set: map[string]any{"user:u": 3}, Operations: []sessiond.Operation{sessiond.Remove{Key: "user:none"}}}
			if _, err := service.UpdateState(t.Context(), sessiond.Scope{AppName: app, UserID: user}, delta); err != nil {
				t.Fatal(err)
			}
			expect(t, lines, "changed map[user:u:3] []")
			beginning := follow(t.Context(), service, scope, sessiond.WatchOptions{Start: sessiond.FromBeginning})
			if line := <-beginning; !strings.HasPrefix(line, "event 1") {
				t.Errorf("a watch from the beginning starts with %q", line)
			}
			if err := service.Delete(t.Context(), &session.DeleteRequest{AppName: app, UserID: user, SessionID: "s"}); err != nil {
				t.Fatal(err)
			}
			expect(t, lines, "deleted")
			if line, ok := <-lines; ok {
				t.Errorf("after the deletion: %q", line)
			}
		})
	}
}

// TestWatchSurvivesRestarts resumes without gap or repetition, also by a cursor in another watch.
func TestWatchSurvivesRestarts(t *testing.T) {
	server := startServer(t, "sqlite:test.db")
	service := connect(t, server)
	s := create(t, service, "s", nil)
	scope := sessiond.Scope{AppName: app, UserID: user, SessionID: "s"}
	lines := follow(t.Context(), service, scope, sessiond.WatchOptions{Start: sessiond.FromBeginning})
	expect(t, lines, "caught up")
	sequence := 0
	for _, end := range []func(){server.Kill, server.Stop} {
		for range 3 {
			sequence++
			appendTo(t, service, s, deltaEvent(t, map[string]any{"n": sequence}))
		}
		end()
		server.StartAgain()
		sequence++
		appendTo(t, service, s, deltaEvent(t, map[string]any{"n": sequence}))
	}
	for n := 1; n <= sequence; n++ {
		expect(t, lines, fmt.Sprintf("event %d map[n:%d]", n, n))
	}
	var cursor string
	for item, err := range service.Watch(t.Context(), scope, sessiond.WatchOptions{Start: sessiond.FromBeginning}) {
		if err != nil {
			t.Fatal(err)
		}
		cursor = item.Position()
		if appended, ok := item.(sessiond.Appended); ok && appended.Sequence == 6 {
			break
		}
	}
	resumed := follow(t.Context(), service, scope, sessiond.WatchOptions{Resume: cursor})
	expect(t, resumed, "event 7 map[n:7]", "event 8 map[n:8]", "caught up")
}

func TestWatchEnds(t *testing.T) {
	server := startServer(t, "memory:")
	service := connect(t, server)
	create(t, service, "s", nil)
	scope := sessiond.Scope{AppName: app, UserID: user, SessionID: "s"}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := follow(ctx, service, scope, sessiond.WatchOptions{Start: sessiond.FromNow})
	expect(t, cancelled, "caught up")
	cancel()
	expect(t, cancelled, "error context canceled")

	short := connect(t, server, sessiond.WithCloseGrace(0))
	closed := follow(t.Context(), short, scope, sessiond.WatchOptions{Start: sessiond.FromNow})
	expect(t, closed, "caught up")
	if err := short.Close(); err != nil {
		t.Fatal(err)
	}
	if line := <-closed; !strings.Contains(line, sessiond.ErrClosed.Error()) {
		t.Errorf("after Close(): %q", line)
	}

	missing := sessiond.Scope{AppName: app, UserID: user, SessionID: "missing"}
	for _, err := range service.Watch(t.Context(), missing, sessiond.WatchOptions{}) {
		if !errors.Is(err, sessiond.ErrNotFound) {
			t.Errorf("a watch of a missing session = %v", err)
		}
	}
	for _, err := range service.Watch(t.Context(), scope, sessiond.WatchOptions{Resume: "nonsense"}) {
		if reasonOf(err) != "BAD_CURSOR" {
			t.Errorf("a watch with a bad cursor = %v", err)
		}
	}
	for _, err := range service.Watch(t.Context(), scope, sessiond.WatchOptions{Start: 9}) {
		if err == nil {
			t.Error("an unknown start was accepted")
		}
	}
	server.Stop()
	for _, err := range service.Watch(t.Context(), scope, sessiond.WatchOptions{Reconnect: 50 * time.Millisecond}) {
		if !errors.Is(err, sessiond.ErrUnavailable) {
			t.Errorf("a watch without a server = %v", err)
		}
	}
}
