package benchmarks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/testserver"
)

const (
	app = "app"
	// stored is the number of events of a session that is read, of which newest are read.
	stored, newest = 1000, 20
)

// backends are the services, each on a new SQLite file.
var backends = []struct {
	name string
	open func(b *testing.B) session.Service
}{
	{"sessiond", func(b *testing.B) session.Service {
		service := sessiond.MustNew(testserver.Start(b, "sqlite:bench.db").Address)
		b.Cleanup(func() { _ = service.Close() })
		return service
	}},
	{"database", func(b *testing.B) session.Service {
		return databaseService(b, "")
	}},
	{"database-wal", func(b *testing.B) session.Service {
		return databaseService(b, "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	}},
}

// databaseService is the ADK's own. Without immediate transactions and a busy timeout, concurrent appends fail.
func databaseService(b *testing.B, more string) session.Service {
	b.Helper()
	file := b.TempDir() + "/bench.db?_txlock=immediate&_pragma=busy_timeout(60000)" + more
	service, err := database.NewSessionService(sqlite.Open(file), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		b.Fatal(err)
	}
	if err := database.AutoMigrate(service); err != nil {
		b.Fatal(err)
	}
	return service
}

var text = strings.Repeat("x", 1024)

// newEvent returns an event with 1 KiB of text and three state changes.
func newEvent(ctx context.Context, n int) *session.Event {
	event := session.NewEvent(ctx, "inv")
	event.Author = "user"
	event.Content = genai.NewContentFromText(text, genai.RoleUser)
	event.Actions.StateDelta = map[string]any{"step": n, "user:last": n, "note": "a short text"}
	return event
}

func newSession(b *testing.B, service session.Service, caller int) session.Session {
	b.Helper()
	request := &session.CreateRequest{AppName: app, UserID: fmt.Sprint("user", caller), SessionID: "s"}
	created, err := service.Create(b.Context(), request)
	if err != nil {
		b.Fatal(err)
	}
	return created.Session
}

// measure shares b.N calls among callers, and reports the median time of a call and calls per second.
func measure(b *testing.B, callers int, call func(caller, n int) error) {
	b.Helper()
	times := make([][]time.Duration, callers)
	var group sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		group.Go(func() {
			for n := caller; n < b.N; n += callers {
				start := time.Now()
				if err := call(caller, n); err != nil {
					b.Error(err)
					return
				}
				times[caller] = append(times[caller], time.Since(start))
			}
		})
	}
	group.Wait()
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	if len(all) > 0 {
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	}
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "calls/s")
}

// prepared is a service with a session for each caller.
type prepared struct {
	service  session.Service
	sessions []session.Session
}

// BenchmarkAppend has a session of its own for each caller.
func BenchmarkAppend(b *testing.B) {
	compare(b, 0, func(b *testing.B, p prepared, caller, n int) error {
		return p.service.AppendEvent(b.Context(), p.sessions[caller], newEvent(b.Context(), n))
	})
}

// BenchmarkGet reads the newest events of a long session, one for each caller.
func BenchmarkGet(b *testing.B) {
	compare(b, stored, func(b *testing.B, p prepared, caller, _ int) error {
		request := &session.GetRequest{
			AppName: app, UserID: fmt.Sprint("user", caller), SessionID: "s", NumRecentEvents: newest,
		}
		found, err := p.service.Get(b.Context(), request)
		if err == nil && found.Session.Events().Len() != newest {
			err = fmt.Errorf("%d events", found.Session.Events().Len())
		}
		return err
	})
}

// compare runs call on every service, for one and for many callers. The services are prepared once, outside of the
// sub-benchmarks, which run several times.
func compare(b *testing.B, events int, call func(b *testing.B, p prepared, caller, n int) error) {
	for _, callers := range []int{1, 16} {
		for _, backend := range backends {
			p := prepare(b, backend.open(b), callers, events)
			b.Run(fmt.Sprintf("%s/%d", backend.name, callers), func(b *testing.B) {
				measure(b, callers, func(caller, n int) error { return call(b, p, caller, n) })
			})
		}
	}
}

func prepare(b *testing.B, service session.Service, callers, events int) prepared {
	b.Helper()
	p := prepared{service, make([]session.Session, callers)}
	var group sync.WaitGroup
	for caller := range callers {
		p.sessions[caller] = newSession(b, service, caller)
		group.Go(func() {
			for n := range events {
				if err := service.AppendEvent(b.Context(), p.sessions[caller], newEvent(b.Context(), n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return p
}
