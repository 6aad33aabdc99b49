package sessiond_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/testserver"
)

// TestMain removes credentials for a sessiond of the environment's own.
func TestMain(m *testing.M) {
	for _, variable := range []string{
		"SESSIOND_TLS_CA", "SESSIOND_CLIENT_TLS_CERT", "SESSIOND_CLIENT_TLS_KEY", "SESSIOND_TOKEN_FILE",
	} {
		_ = os.Unsetenv(variable)
	}
	os.Exit(m.Run())
}

func startTLSServer(t *testing.T, authority *authority, more ...string) string {
	t.Helper()
	certificate, key := authority.issue(t, "server")
	arguments := append([]string{"--tls-cert", certificate, "--tls-key", key}, more...)
	server := testserver.StartOn(t, "memory:", "127.0.0.1:0", arguments...)
	return "https://" + strings.TrimPrefix(server.Address, "https://")
}

var once = sessiond.WithRetryPolicy(sessiond.RetryPolicy{Attempts: 1})

func unavailable(t *testing.T, service *sessiond.Service) {
	t.Helper()
	if _, err := service.List(t.Context(), &session.ListRequest{AppName: app}); !errors.Is(err, sessiond.ErrUnavailable) {
		t.Errorf("List() = %v, want ErrUnavailable", err)
	}
}

func TestTLS(t *testing.T) {
	authority := newAuthority(t)
	address := startTLSServer(t, authority)
	create(t, dial(t, address, sessiond.WithTLSCA(authority.file)), "s", nil)
	// The system does not trust this authority.
	unavailable(t, dial(t, address, once))
}

func TestClientCertificate(t *testing.T) {
	authority := newAuthority(t)
	address := startTLSServer(t, authority, "--tls-client-ca", authority.file)
	certificate, key := authority.issue(t, "agent")
	create(t, dial(t, address, sessiond.WithTLSCA(authority.file), sessiond.WithClientCertificate(certificate, key)), "s", nil)
	unavailable(t, dial(t, address, once, sessiond.WithTLSCA(authority.file)))

	t.Setenv("SESSIOND_TLS_CA", authority.file)
	t.Setenv("SESSIOND_CLIENT_TLS_CERT", certificate)
	t.Setenv("SESSIOND_CLIENT_TLS_KEY", key)
	create(t, dial(t, address), "by variables", nil)
	// An option takes precedence.
	unavailable(t, dial(t, address, once, sessiond.WithTLSCA(newAuthority(t).file)))
}

func writeToken(t *testing.T, path, token string, modified time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, modified, modified); err != nil {
		t.Fatal(err)
	}
}

func TestTokenFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "token")
	writeToken(t, path, "secret", time.Now())
	for name, listen := range map[string][2]string{
		"loopback": {"tcp", "127.0.0.1:0"}, "unix socket": {"unix", filepath.Join(folder, "s")},
	} {
		t.Run(name, func(t *testing.T) {
			server := startRecorder(t, listen[0], listen[1])
			for _, options := range [][]sessiond.Option{{sessiond.WithTokenFile(path)}, nil} {
				if errs := callAndWatch(t.Context(), dial(t, server.address, options...)); errs != [2]error{} {
					t.Fatal(errs)
				}
			}
			t.Setenv("SESSIOND_TOKEN_FILE", path)
			if errs := callAndWatch(t.Context(), dial(t, server.address)); errs != [2]error{} {
				t.Fatal(errs)
			}
			want := []string{"Bearer secret", "Bearer secret", "", "", "Bearer secret", "Bearer secret"}
			if got := server.values("authorization"); !slices.Equal(got, want) {
				t.Errorf("the server received %q, want %q", got, want)
			}
		})
	}
}

func TestServerWithTokens(t *testing.T) {
	folder := t.TempDir()
	path, hashes := filepath.Join(folder, "token"), filepath.Join(folder, "tokens.toml")
	writeToken(t, path, "secret", time.Now())
	entry := fmt.Sprintf("[[token]]\nname = \"agent\"\nsha256 = \"%x\"\n", sha256.Sum256([]byte("secret")))
	if err := os.WriteFile(hashes, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	server := testserver.StartOn(t, "memory:", "127.0.0.1:0", "--token-hashes", hashes)
	with := connect(t, server, sessiond.WithTokenFile(path))
	create(t, with, "s", nil)
	scope := sessiond.Scope{AppName: app, UserID: user, SessionID: "s"}
	for _, err := range with.Watch(t.Context(), scope, sessiond.WatchOptions{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	for _, err := range callAndWatch(t.Context(), connect(t, server)) {
		if failure, ok := errors.AsType[*sessiond.Error](err); !ok || failure.Reason != "CREDENTIAL_MISSING" || !errors.Is(err, sessiond.ErrUnauthenticated) {
			t.Errorf("without a token: %v", err)
		}
	}
}

// TestNewToken sends the new token once the file has changed.
func TestNewToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, "old", time.Unix(1, 0))
	server := startRecorder(t, "tcp", "127.0.0.1:0")
	service := dial(t, server.address, sessiond.WithTokenFile(path))
	deadline := time.Now().Add(5 * time.Minute)
	for range 2 {
		_ = callAndWatch(t.Context(), service)
		writeToken(t, path, "new", time.Unix(2, 0))
	}
	for !slices.Contains(server.values("authorization"), "Bearer new") {
		if time.Now().After(deadline) {
			t.Fatal("the new token was not sent")
		}
		_ = callAndWatch(t.Context(), service)
	}
	if got := server.values("authorization")[0]; got != "Bearer old" {
		t.Errorf("the first call sent %q", got)
	}
}

func TestTokenIsNotSentUnencrypted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, "secret", time.Now())
	tls := sessiond.WithDialOptions(grpc.WithTransportCredentials(credentials.NewTLS(nil)))
	for _, address := range []string{"sessions.example.com:50051", "http://10.0.0.1:1", "[2001:db8::1]:1", "0.0.0.0:1"} {
		_, err := sessiond.New(address, sessiond.WithTokenFile(path))
		if err == nil || !strings.Contains(err.Error(), "refusing to send a token to ") || !strings.Contains(err.Error(), "use https://HOST:PORT") {
			t.Errorf("New(%q) = %v", address, err)
		}
		// TLS of the caller's own is as good.
		if _, err := sessiond.New(address, sessiond.WithTokenFile(path), tls); err != nil {
			t.Errorf("New(%q) with TLS = %v", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:1", "127.8.8.8:1", "localhost:1", "[::1]:1", "unix:/s", "https://h:1"} {
		if _, err := sessiond.New(address, sessiond.WithTokenFile(path)); err != nil {
			t.Errorf("New(%q) = %v", address, err)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	authority := newAuthority(t)
	certificate, key := authority.issue(t, "agent")
	empty := filepath.Join(t.TempDir(), "empty")
	writeToken(t, empty, "", time.Now())
	for want, test := range map[string]struct {
		address string
		option  sessiond.Option
	}{
		"WithTLSCA needs TLS, and h:1 has none; use https://HOST:PORT": {"h:1", sessiond.WithTLSCA(authority.file)},
		"WithClientCertificate needs TLS, and h:2 has none":            {"h:2", sessiond.WithClientCertificate(certificate, key)},
		"WithTLSCA: open /missing: no such file":                       {"https://h", sessiond.WithTLSCA("/missing")},
		"WithTLSCA: " + empty + " has no certificate":                  {"https://h", sessiond.WithTLSCA(empty)},
		"WithClientCertificate: tls: ":                                 {"https://h", sessiond.WithClientCertificate(key, certificate)},
		"WithTokenFile: stat /missing: no such file":                   {"https://h", sessiond.WithTokenFile("/missing")},
		"WithTokenFile: " + empty + " has no token":                    {"https://h", sessiond.WithTokenFile(empty)},
		"WithTLSCA has an empty path":                                  {"https://h", sessiond.WithTLSCA("")},
		"WithClientCertificate has an empty path":                      {"https://h", sessiond.WithClientCertificate(certificate, "")},
	} {
		if _, err := sessiond.New(test.address, test.option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want %q", err, want)
		}
	}
	t.Setenv("SESSIOND_CLIENT_TLS_CERT", certificate)
	if _, err := sessiond.New("h:1"); err == nil || !strings.Contains(err.Error(), "SESSIOND_CLIENT_TLS_CERT needs TLS, and h:1 has none") {
		t.Errorf("New() = %v", err)
	}
	if _, err := sessiond.New("https://h:1"); err == nil || !strings.Contains(err.Error(), "belong together; set both") {
		t.Errorf("New() = %v", err)
	}
	// Dial options may bring TLS of their own.
	if _, err := sessiond.New("h:1", sessiond.WithDialOptions(grpc.WithTransportCredentials(credentials.NewTLS(nil)))); err != nil {
		t.Errorf("New() = %v", err)
	}
}

func TestRefusedCredentials(t *testing.T) {
	for name, test := range map[string]struct{ refused, want error }{
		"unauthenticated":            {refusal(codes.Unauthenticated, "R", "no"), sessiond.ErrUnauthenticated},
		"permission denied":          {refusal(codes.PermissionDenied, "R", "no"), sessiond.ErrPermissionDenied},
		"unauthenticated by a proxy": {status.Error(codes.Unauthenticated, "no token"), sessiond.ErrUnauthenticated},
		"denied by a proxy":          {status.Error(codes.PermissionDenied, "not you"), sessiond.ErrPermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			server := startRecorder(t, "tcp", "127.0.0.1:0")
			server.refuse = test.refused
			for _, err := range callAndWatch(t.Context(), dial(t, server.address)) {
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
			}
			// One attempt each.
			if calls := len(server.values("authorization")); calls != 2 {
				t.Errorf("%d calls, want 2", calls)
			}
		})
	}
}
