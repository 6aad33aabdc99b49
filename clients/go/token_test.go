package sessiond

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTokenFileIsReadAgain looks at most once a second, reads what has changed, and keeps the last token meanwhile.
func TestTokenFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string, modified int64) {
		t.Helper()
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(modified, 0), time.Unix(modified, 0)); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	write("a", 1)
	token, err := newTokenFile(file{path, "WithTokenFile"}, address{tls: true}, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(after time.Duration, want string) {
		t.Helper()
		now = now.Add(after)
		got, err := token.GetRequestMetadata(t.Context())
		if err != nil || got["authorization"] != "Bearer "+want {
			t.Errorf("GetRequestMetadata() = %v, %v, want %q", got, err, want)
		}
	}
	write("b", 2)
	expect(900*time.Millisecond, "a")
	expect(100*time.Millisecond, "b")
	write("unchanged time", 2)
	expect(time.Second, "b")
	write("", 3)
	expect(time.Second, "b")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(time.Second, "b")
	if warnings := strings.Count(log.String(), "level=WARN"); warnings != 2 {
		t.Errorf("%d warnings, want 2: %s", warnings, log.String())
	}
	write("c", 3)
	expect(time.Second, "c")
}
