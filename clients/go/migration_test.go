package sessiond_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/session"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// copySessions copies the sessions of an application. After an error it can be run again.
func copySessions(ctx context.Context, from session.Service, to *sessiond.Service, appName string) error {
	listed, err := from.List(ctx, &session.ListRequest{AppName: appName})
	if err != nil {
		return err
	}
	for _, one := range listed.Sessions {
		key := session.GetRequest{AppName: appName, UserID: one.UserID(), SessionID: one.ID()}
		source, err := from.Get(ctx, &key)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", one.ID(), one.UserID(), err)
		}
		own, shared := map[string]any{}, map[string]any{}
		for name, value := range source.Session.State().All() {
			if strings.HasPrefix(name, "app:") || strings.HasPrefix(name, "user:") {
				shared[name] = value
			} else {
				own[name] = value
			}
		}
		target := one
		created, err := to.Create(ctx, &session.CreateRequest{AppName: appName, UserID: one.UserID(), SessionID: one.ID(), State: own})
		if err == nil {
			target = created.Session
		} else if found, getErr := to.Get(ctx, &key); errors.Is(err, sessiond.ErrAlreadyExists) && getErr == nil {
			target = found.Session // an earlier run has created it
		} else {
			return fmt.Errorf("%s of %s: %w", one.ID(), one.UserID(), err)
		}
		for event := range source.Session.Events().All() {
			if err := to.AppendEvent(ctx, target, event); err != nil {
				return fmt.Errorf("%s of %s: %w", one.ID(), one.UserID(), err)
			}
		}
		// The events have set older values again.
		user := sessiond.Scope{AppName: appName, UserID: one.UserID()}
		if _, err := to.UpdateState(ctx, user, sessiond.Delta{Set: shared}); err != nil {
			return fmt.Errorf("state of %s: %w", one.UserID(), err)
		}
	}
	return nil
}

// TestCopyOfDatabase runs the README's migration twice, and once after a part of it.
func TestCopyOfDatabase(t *testing.T) {
	database := databaseService(t, t.TempDir()+"/adk.db")
	for _, id := range []string{"s1", "s2", "s2\n"} {
		s := create(t, database, id, map[string]any{"set by creation": id, "n": 0.0})
		for n := range 3 {
			appendTo(t, database, s, deltaEvent(t, map[string]any{"n": float64(n), "app:last": id, "user:last": id}))
			s = get(t, database, id)
		}
	}
	service := inMemory(t)
	partly := create(t, service, "s1", map[string]any{"set by creation": "s1", "n": 2.0})
	appendTo(t, service, partly, get(t, database, "s1").Events().At(0))
	for range 2 {
		if err := copySessions(t.Context(), database, service, app); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"s1", "s2", "s2\n"} {
			want, got := get(t, database, id), get(t, service, id)
			if diff := cmp.Diff(stateOf(want), stateOf(got)); diff != "" {
				t.Errorf("the state of %q (-want +got):\n%s", id, diff)
			}
			if diff := cmp.Diff(ids(want), ids(got)); diff != "" {
				t.Errorf("the events of %q (-want +got):\n%s", id, diff)
			}
		}
	}
}
