package sessiond_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/session"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// TestMerge appends from two objects of one session, which the server merges key by key.
func TestMerge(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			one := create(t, service, "s", map[string]any{"a": 1.0, "b": 1.0, "gone": 1.0, "user:u": 1.0})
			two := get(t, service, "s")
			if err := one.State().Set("uncommitted", 7); err != nil {
				t.Fatal(err)
			}
			if err := one.State().Set("b", "mine"); err != nil {
				t.Fatal(err)
			}
			appendTo(t, service, two, deltaEvent(t, map[string]any{"a": 2, "user:u": 2, "app:x": 2}))
			if err := service.Remove(t.Context(), two, "gone"); err != nil {
				t.Fatal(err)
			}
			own := []any{"own", "object"}
			appendTo(t, service, one, deltaEvent(t, map[string]any{"c": own, "temp:t": 1}))

			want := map[string]any{
				"a": 2.0, "b": "mine", "c": own, "user:u": 2.0, "app:x": 2.0, "uncommitted": 7, "temp:t": 1,
			}
			if diff := cmp.Diff(want, stateOf(one)); diff != "" {
				t.Errorf("the caller's state (-want +got):\n%s", diff)
			}
			if one.Events().Len() != 1 || two.Events().Len() != 2 {
				t.Errorf("the callers have %d and %d events, want 1 and 2", one.Events().Len(), two.Events().Len())
			}
			stored := get(t, service, "s")
			want = map[string]any{"a": 2.0, "b": 1.0, "c": own, "user:u": 2.0, "app:x": 2.0}
			if diff := cmp.Diff(want, stateOf(stored)); diff != "" {
				t.Errorf("the stored state (-want +got):\n%s", diff)
			}
			if stored.Events().Len() != 3 {
				t.Errorf("%d stored events, want 3", stored.Events().Len())
			}
			if err := service.Refresh(t.Context(), one); err != nil {
				t.Fatal(err)
			}
			want["temp:t"] = 1
			if diff := cmp.Diff(want, stateOf(one)); diff != "" || one.Events().Len() != 3 {
				t.Errorf("the refreshed state, with %d events (-want +got):\n%s", one.Events().Len(), diff)
			}
		})
	}
}

// TestEventIsNotChanged appends an event that others hold as well.
func TestEventIsNotChanged(t *testing.T) {
	service := inMemory(t)
	s := create(t, service, "s", nil)
	event := deltaEvent(t, map[string]any{"temp:t": 1, "a": 1})
	appendTo(t, service, s, event)
	if diff := cmp.Diff(map[string]any{"temp:t": 1, "a": 1}, event.Actions.StateDelta); diff != "" {
		t.Errorf("the caller's delta (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"a": 1}, s.Events().At(0).Actions.StateDelta); diff != "" {
		t.Errorf("the delta in the session (-want +got):\n%s", diff)
	}
	plain := textEvent(t, "x")
	appendTo(t, service, s, plain)
	if s.Events().At(1) != plain {
		t.Error("an event without temp: keys was copied")
	}
	appendTo(t, service, s, plain)
	appendTo(t, service, s, event)
	if s.Events().Len() != 2 || get(t, service, "s").Events().Len() != 2 {
		t.Error("a repeated event was added")
	}
	if s.Events().At(2) != nil || s.Events().At(-1) != nil {
		t.Error("At() out of range is not nil")
	}
	if _, err := s.State().Get("missing"); err != session.ErrStateKeyNotExist {
		t.Errorf("Get() of a missing key = %v", err)
	}
	partial := textEvent(t, "x")
	partial.Partial = true
	appendTo(t, service, s, partial)
	if s.Events().Len() != 2 {
		t.Error("a partial event was added")
	}
	late := textEvent(t, "late")
	late.Timestamp = time.Date(2031, 2, 3, 4, 5, 6, 123456789, time.FixedZone("x", 3600))
	appendTo(t, service, s, late)
	found := get(t, service, "s")
	if !s.LastUpdateTime().Equal(late.Timestamp) || !found.LastUpdateTime().Equal(late.Timestamp) {
		t.Errorf("the last update was %v, stored %v", s.LastUpdateTime(), found.LastUpdateTime())
	}
}

// conflictCases are those of clients/cases/conflict.json.
type conflictCases struct {
	State map[string]any
	Cases []struct {
		Name        string
		Others, Own conflictDelta
		Keys        []string
	}
}

type conflictDelta struct {
	Set               map[string]any
	Remove, Increment []string
}

func (d conflictDelta) delta() sessiond.Delta {
	delta := sessiond.Delta{Set: d.Set}
	for _, key := range d.Remove {
		delta.Operations = append(delta.Operations, sessiond.Remove{Key: key})
	}
	for _, key := range d.Increment {
		delta.Operations = append(delta.Operations, sessiond.Increment{Key: key, By: 1})
	}
	return delta
}

// TestConflict refuses an append only if other writers have changed a key that the event writes.
func TestConflict(t *testing.T) {
	text, err := os.ReadFile("../cases/conflict.json")
	if err != nil {
		t.Fatal(err)
	}
	var table conflictCases
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	for _, store := range stores {
		server := startServer(t, store.uri)
		others := connect(t, server)
		for _, stale := range []sessiond.Staleness{sessiond.Conflict, sessiond.Merge, sessiond.Refuse} {
			service := connect(t, server, sessiond.WithStaleness(stale))
			for _, test := range table.Cases {
				t.Run(fmt.Sprint(store.name, stale, test.Name), func(t *testing.T) {
					clearShared(t, server)
					create(t, others, t.Name(), table.State)
					object, other := get(t, service, t.Name()), get(t, others, t.Name())
					theirs, own := test.Others.delta(), test.Own.delta()
					isOvertaken := theirs.Set != nil || theirs.Operations != nil
					if isOvertaken {
						if _, err := others.Change(t.Context(), other, theirs); err != nil {
							t.Fatal(err)
						}
					}
					wanted := stale == sessiond.Conflict && len(test.Keys) > 0 || stale == sessiond.Refuse && isOvertaken
					err := service.AppendEventWith(t.Context(), object, deltaEvent(t, own.Set), own.Operations...)
					if errors.Is(err, sessiond.ErrStale) != wanted || (err != nil) != wanted {
						t.Fatalf("AppendEvent() = %v, want stale: %v", err, wanted)
					}
					if wanted {
						if !strings.Contains(err.Error(), "stale session error") || object.Events().Len() != 0 {
							t.Errorf("AppendEvent() = %q, %d events", err, object.Events().Len())
						}
						for _, key := range test.Keys {
							if stale == sessiond.Conflict && !strings.Contains(err.Error(), key) {
								t.Errorf("AppendEvent() = %q, which does not name %q", err, key)
							}
						}
						return
					}
					// The object is up to date: its own writes do not conflict with the next ones.
					appendTo(t, service, object, deltaEvent(t, map[string]any{"a": 5, "b": 5, "user:u": 5, "app:x": 5, "new": 5}))
					appendTo(t, service, object, deltaEvent(t, map[string]any{"a": 6, "b": 6, "user:u": 6, "app:x": 6, "new": 6}))
					if stale != sessiond.Conflict {
						return
					}
					// A write of others conflicts as before.
					appendTo(t, others, other, deltaEvent(t, map[string]any{"user:u": 9}))
					err = service.AppendEvent(t.Context(), object, deltaEvent(t, map[string]any{"user:u": 7}))
					if !errors.Is(err, sessiond.ErrStale) {
						t.Errorf("AppendEvent() = %v, want ErrStale", err)
					}
					if err := service.Refresh(t.Context(), object); err != nil {
						t.Fatal(err)
					}
					appendTo(t, service, object, deltaEvent(t, map[string]any{"user:u": 7}))
				})
			}
		}
	}
}

// TestUncommittedValue keeps a value that a tool has set through the append of another branch, and refuses it later if it
// is based on a value that others have replaced, created or removed.
func TestUncommittedValue(t *testing.T) {
	server := startServer(t, "memory:")
	for _, stale := range []sessiond.Staleness{sessiond.Conflict, sessiond.Merge} {
		service := connect(t, server, sessiond.WithStaleness(stale))
		others := connect(t, server)
		for name, change := range map[string]sessiond.Delta{
			"changed": {Set: map[string]any{"old": "theirs"}},
			"created": {Set: map[string]any{"new": "theirs"}},
			"removed": {Operations: []sessiond.Operation{sessiond.Remove{Key: "old"}}},
			"nothing": {Set: map[string]any{"b": "theirs"}},
		} {
			t.Run(string(stale)+" "+name, func(t *testing.T) {
				id := string(stale) + name
				create(t, others, id, map[string]any{"old": 1, "b": 1, "count": 1})
				object := get(t, service, id)
				for _, key := range []string{"old", "new"} {
					if err := object.State().Set(key, "mine"); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := others.Change(t.Context(), get(t, others, id), change); err != nil {
					t.Fatal(err)
				}
				increment := sessiond.Increment{Key: "count", By: 1}
				if err := service.AppendEventWith(t.Context(), object, textEvent(t, "x"), increment); err != nil {
					t.Fatal(err)
				}
				state := stateOf(object)
				if state["old"] != "mine" || state["new"] != "mine" || state["count"] != 2.0 {
					t.Errorf("the state is %v", state)
				}
				if name == "nothing" && state["b"] != "theirs" {
					t.Errorf("b is %v", state["b"])
				}
				err := service.AppendEvent(t.Context(), object, deltaEvent(t, map[string]any{"old": "mine", "new": "mine"}))
				wanted := stale == sessiond.Conflict && name != "nothing"
				if errors.Is(err, sessiond.ErrStale) != wanted || (err != nil) != wanted {
					t.Errorf("AppendEvent() = %v, want stale: %v", err, wanted)
				}
			})
		}
	}
}

// TestRefuse refuses every append from an outdated object, as the ADK's database service does.
func TestRefuse(t *testing.T) {
	server := startServer(t, "memory:")
	strict, others := connect(t, server, sessiond.WithStaleness(sessiond.Refuse)), connect(t, server)
	object := create(t, strict, "s", nil)
	first, second := textEvent(t, "1"), deltaEvent(t, map[string]any{"k": 1})
	appendTo(t, strict, object, first)
	appendTo(t, strict, object, second)

	other := get(t, others, "s")
	appendTo(t, others, other, deltaEvent(t, map[string]any{"theirs": 1}))
	for range 2 {
		err := strict.AppendEvent(t.Context(), object, textEvent(t, "3"))
		if !errors.Is(err, sessiond.ErrStale) || !strings.HasPrefix(err.Error(), "stale session error") {
			t.Fatalf("AppendEvent() = %v, want ErrStale", err)
		}
		// Repeating an event that is stored succeeds, and hides nothing from the next append.
		appendTo(t, strict, object, second)
	}
	if _, err := object.State().Get("theirs"); err == nil || object.Events().Len() != 2 {
		t.Errorf("state %v, events %v", stateOf(object), ids(object))
	}
	if err := strict.Refresh(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	appendTo(t, strict, object, textEvent(t, "3"))
	if object.Events().Len() != 4 {
		t.Errorf("%d events, want 4", object.Events().Len())
	}
	// A lost response, and others in between: the object gets its own event, and is outdated.
	lost := deltaEvent(t, map[string]any{"lost": 1})
	copied := get(t, strict, "s")
	appendTo(t, strict, copied, lost)
	appendTo(t, others, other, deltaEvent(t, map[string]any{"theirs": 2}))
	appendTo(t, strict, object, lost)
	if got := stateOf(object); got["lost"] != 1 || got["theirs"] != 1.0 || object.Events().Len() != 5 {
		t.Errorf("state %v, %d events", got, object.Events().Len())
	}
	if err := strict.AppendEvent(t.Context(), object, textEvent(t, "6")); !errors.Is(err, sessiond.ErrStale) {
		t.Errorf("AppendEvent() = %v, want ErrStale", err)
	}
}

// TestParallelBranches uses one object from many goroutines, as parallel agents do. It is for the race detector.
func TestParallelBranches(t *testing.T) {
	service := inMemory(t)
	s := create(t, service, "s", nil)
	const branches, turns = 8, 10
	var group sync.WaitGroup
	for branch := range branches {
		group.Go(func() {
			for turn := range turns {
				key := fmt.Sprintf("b%d", branch)
				if err := s.State().Set(key, turn); err != nil {
					t.Error(err)
				}
				event := deltaEvent(t, map[string]any{key: turn, "user:last": key, "temp:x": turn})
				if err := service.AppendEventWith(t.Context(), s, event, sessiond.Increment{Key: "n", By: 1}); err != nil {
					t.Error(err)
				}
				// A refresh may come in between, and reads the number as the server has it.
				isTurn := func(value any) bool { return value == turn || value == float64(turn) }
				found := false
				for event := range s.Events().All() {
					found = found || isTurn(event.Actions.StateDelta[key])
				}
				if value, err := s.State().Get(key); !found || err != nil || !isTurn(value) {
					t.Errorf("branch %d does not see its turn %d: %v, %v", branch, turn, value, err)
				}
				for range s.State().All() {
					_ = s.LastUpdateTime()
				}
			}
		})
	}
	group.Go(func() {
		for range 10 {
			if err := service.Refresh(t.Context(), s); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	if got := stateOf(s)["n"]; got != float64(branches*turns) || s.Events().Len() != branches*turns {
		t.Errorf("n is %v with %d events, want %d", got, s.Events().Len(), branches*turns)
	}
}

func TestSharedTemp(t *testing.T) {
	server := startServer(t, "memory:")
	sharing, other := connect(t, server, sessiond.WithSharedTemp()), connect(t, server)
	s := create(t, sharing, "s", nil)
	appendTo(t, sharing, s, deltaEvent(t, map[string]any{"temp:t": 1, "a": 1}))
	scope := sessiond.Scope{AppName: app, UserID: user, SessionID: "s"}
	found, err := other.GetStateWithin(t.Context(), scope, "inv")
	if diff := cmp.Diff(map[string]any{"temp:t": 1.0, "a": 1.0}, found); err != nil || diff != "" {
		t.Errorf("state within the invocation, %v (-want +got):\n%s", err, diff)
	}
	if err := sharing.AppendEventWith(t.Context(), s, deltaEvent(t, nil), sessiond.Increment{Key: "temp:t", By: 2}); err != nil {
		t.Fatal(err)
	}
	if got := stateOf(s)["temp:t"]; got != 3.0 {
		t.Errorf("temp:t is %v, want 3", got)
	}
	if err := other.AppendEventWith(t.Context(), get(t, other, "s"), deltaEvent(t, nil), sessiond.Increment{Key: "temp:t"}); err == nil {
		t.Error("an operation on a temp: key that is not shared was accepted")
	}
	if err := sharing.EndInvocation(t.Context(), s, "inv"); err != nil {
		t.Fatal(err)
	}
	if found, err := other.GetStateWithin(t.Context(), scope, "inv"); err != nil || len(found) != 1 {
		t.Errorf("state after the invocation = %v, %v", found, err)
	}
}
