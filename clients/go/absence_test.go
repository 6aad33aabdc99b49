package sessiond_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/adk/v2/session"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// list makes one call with the defaults and the given options, and returns its error and how long it took.
func list(t *testing.T, address string, options ...sessiond.Option) (took time.Duration, err error) {
	t.Helper()
	service, err := sessiond.New(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	begun := time.Now()
	_, err = service.List(t.Context(), &session.ListRequest{AppName: app})
	return time.Since(begun), err
}

// absent is an address on which nothing listens. A port that was free a moment ago can be another test's by now.
const absent = "127.0.0.1:1"

// TestAbsentServer waits less for a sidecar that is not there than for one that does not answer.
func TestAbsentServer(t *testing.T) {
	proxied := startServer(t, "memory:").Address
	for name, test := range map[string]struct {
		address  string
		options  []sessiond.Option
		least    time.Duration
		most     time.Duration
		succeeds bool
	}{
		"loopback": {address: absent, least: 500 * time.Millisecond, most: 8 * time.Second},
		"a socket": {address: "unix:" + t.TempDir() + "/s.sock", least: 500 * time.Millisecond, most: 8 * time.Second},
		"a timeout of one's own": {
			address: absent, options: []sessiond.Option{sessiond.WithTimeout(5 * time.Second)}, least: 3500 * time.Millisecond, most: 12 * time.Second,
		},
		"a timeout in the address": {address: "sessiond://" + absent + "?timeout=5", least: 3500 * time.Millisecond, most: 12 * time.Second},
		// Nine attempts take at least 3.2 s, jitter included.
		"connected": {
			address: startProxy(t, proxied, &proxy{before: firstCalls("ListSessions", 9, errLost)}).address, least: 3 * time.Second, most: 15 * time.Second, succeeds: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took, err := list(t, test.address, test.options...)
			if test.succeeds != (err == nil) || err != nil && !errors.Is(err, sessiond.ErrUnavailable) {
				t.Errorf("List() = %v", err)
			}
			if took < test.least || took > test.most {
				t.Errorf("List() took %v, want %v to %v", took, test.least, test.most)
			}
		})
	}
}
