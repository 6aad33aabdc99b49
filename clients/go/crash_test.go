package sessiond_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// TestCrashes kills the server in the middle of appends. Every event is stored once, and every increment counts once.
func TestCrashes(t *testing.T) {
	server := startServer(t, "sqlite:test.db")
	service := connect(t, server)
	const writers, crashes, after = 4, 3, 25
	// A crash waits for that many appends since the last one, so that it comes in the middle of others.
	appended := make(chan struct{}, 10_000)
	var done atomic.Bool
	var mu sync.Mutex
	var want []string
	var group sync.WaitGroup
	create(t, service, "s", nil)
	for writer := range writers {
		s := get(t, service, "s")
		group.Go(func() {
			for n := 0; !done.Load(); n++ {
				event := deltaEvent(t, map[string]any{fmt.Sprint("w", writer): n})
				event.ID = fmt.Sprintf("%d-%d", writer, n)
				if err := service.AppendEventWith(t.Context(), s, event, sessiond.Increment{Key: "user:n", By: 1}); err != nil {
					t.Errorf("append %s: %v", event.ID, err)
					return
				}
				mu.Lock()
				want = append(want, event.ID)
				mu.Unlock()
				appended <- struct{}{}
			}
		})
	}
	for range crashes {
		for range after {
			<-appended
		}
		server.Kill()
		server.StartAgain()
	}
	for range after {
		<-appended
	}
	done.Store(true)
	group.Wait()

	found := get(t, service, "s")
	got := ids(found)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d events are stored, %d were appended", len(got), len(want))
	}
	if n := stateOf(found)["user:n"]; n != float64(len(want)) {
		t.Errorf("user:n is %v after %d appends", n, len(want))
	}
}
