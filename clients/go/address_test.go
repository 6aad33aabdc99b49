package sessiond

import (
	"strings"
	"testing"
	"time"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]address{
		"127.0.0.1:50051":            {target: "127.0.0.1:50051"},
		" localhost ":                {target: "localhost:50051"},
		"[::1]":                      {target: "[::1]:50051"},
		"[::1]:7":                    {target: "[::1]:7"},
		"unix:/run/s.sock":           {target: "unix:/run/s.sock"},
		"unix:///run/s.sock":         {target: "unix:///run/s.sock"},
		"unix:relative.sock":         {target: "unix:relative.sock"},
		"sessiond://host:1":          {target: "host:1"},
		"sessiond://host/":           {target: "host:50051"},
		"sessiond:///run/a%20b.sock": {target: "unix:/run/a b.sock"},
		"http://host:1":              {target: "host:1"},
		"https://host:1/":            {target: "host:1", tls: true},
		"sessiond://host:1?timeout=2.5&stale=conflict": {
			target: "host:1", timeout: 2500 * time.Millisecond, stale: Conflict,
		},
	} {
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("parseAddress(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	for _, text := range []string{
		"", "unix:", "unix:///", ":1", "host:", "host:0", "host:65536", "host:x", "a b:1", "::1", "::1:5", "a/b:1", "http://", "https://",
		"sessiond://", "sessiond:///", "ftp://host:1", "sessiond://u@host:1", "u@host:1", "sessiond://host:1#f", "sessiond://host:1/p",
		"sessiond://host:1?timeout=0", "sessiond://host:1?timeout=NaN", "sessiond://host:1?timeout=x", "sessiond://host:1?timeout=1e99",
		"sessiond://host:1?stale=no", "sessiond://host:1?other=1", "sessiond://host:1?%zz",
	} {
		if got, err := parseAddress(text); err == nil {
			t.Errorf("parseAddress(%q) = %+v, want an error", text, got)
		} else if !strings.HasPrefix(err.Error(), "sessiond: ") {
			t.Errorf("parseAddress(%q) = %q", text, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, option := range map[string]Option{
		"timeout":  WithTimeout(0),
		"attempts": WithRetryPolicy(RetryPolicy{Attempts: -1, FirstDelay: 1, MaxDelay: 1}),
		"no delay": WithRetryPolicy(RetryPolicy{}),
		"delay":    WithRetryPolicy(RetryPolicy{Attempts: 1, FirstDelay: -1}),
		"stale":    WithStaleness("no"),
		"grace":    WithCloseGrace(-1),
		"logger":   WithLogger(nil),
	} {
		if _, err := New("127.0.0.1:1", option); err == nil {
			t.Errorf("%s: New() accepts it", name)
		}
	}
	service := MustNew("sessiond://127.0.0.1:1?timeout=5&stale=error", WithTimeout(time.Second))
	defer service.Close()
	if service.client.timeout != time.Second || service.stale != Refuse {
		t.Errorf("timeout %v and stale %q", service.client.timeout, service.stale)
	}
}

func TestRetryDelays(t *testing.T) {
	policy := DefaultRetryPolicy()
	if err := policy.validate(); err != nil || policy.exhausted(1<<30) {
		t.Errorf("validate() = %v, exhausted() = %v", err, policy.exhausted(1<<30))
	}
	for failed, longest := range map[int]time.Duration{
		1: 50 * time.Millisecond, 2: 100 * time.Millisecond, 5: 800 * time.Millisecond, 6: time.Second, 1 << 30: time.Second,
	} {
		for range 100 {
			if delay := policy.delay(failed, 0); delay < longest/2 || delay > longest {
				t.Fatalf("delay(%d) = %v, want %v to %v", failed, delay, longest/2, longest)
			}
		}
	}
	if delay := policy.delay(1, time.Minute); delay != time.Minute {
		t.Errorf("delay = %v, want the one that the server asked for", delay)
	}
}
