package sessiond

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// The environment variables of the sessiond command, for what no option sets.
const (
	variableCA          = "SESSIOND_TLS_CA"
	variableCertificate = "SESSIOND_CLIENT_TLS_CERT"
	variableKey         = "SESSIOND_CLIENT_TLS_KEY"
	variableToken       = "SESSIOND_TOKEN_FILE"
)

// tokenCheckInterval is long enough that the file costs nothing, and short enough for tokens that are replaced minutes
// before they expire.
const tokenCheckInterval = time.Second

// file is a path and the option or variable that sets it, for messages.
type file struct{ path, source string }

func (f file) orVariable(name string) file {
	if path := os.Getenv(name); f.path == "" && path != "" {
		return file{path, name}
	}
	return f
}

func (f file) read() ([]byte, error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("sessiond: %s: %w", f.source, err)
	}
	return content, nil
}

// credentialFiles are the files of a service. The path of one that it does not use is empty.
type credentialFiles struct{ ca, certificate, key, token file }

// orEnvironment adds the files of the environment. Without https, dial options may set TLS that is not known here, so the
// variables of TLS are then left alone.
func (f credentialFiles) orEnvironment(to address, hasDialOptions bool) credentialFiles {
	if to.tls || !hasDialOptions {
		f.ca = f.ca.orVariable(variableCA)
		f.certificate = f.certificate.orVariable(variableCertificate)
		f.key = f.key.orVariable(variableKey)
	}
	f.token = f.token.orVariable(variableToken)
	return f
}

// transport returns TLS for an https address, and otherwise none.
func (f credentialFiles) transport(to address) (credentials.TransportCredentials, error) {
	if !to.tls {
		if used := cmp.Or(f.ca, f.certificate, f.key); used.path != "" {
			return nil, fmt.Errorf("sessiond: %s needs TLS, and %s has none; use https://HOST:PORT", used.source, to.target)
		}
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca.path != "" {
		content, err := f.ca.read()
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("sessiond: %s: %s has no certificate", f.ca.source, f.ca.path)
		}
	}
	if (f.certificate.path == "") != (f.key.path == "") {
		return nil, errors.New("sessiond: the client's certificate and its key belong together; set both")
	}
	if f.certificate.path != "" {
		pair, err := tls.LoadX509KeyPair(f.certificate.path, f.key.path)
		if err != nil {
			return nil, fmt.Errorf("sessiond: %s: %w", f.certificate.source, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// local tells whether calls stay on this machine: a Unix socket or a loopback address.
func (a address) local() bool {
	if strings.HasPrefix(a.target, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(a.target)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// tokenFile sends the token in a file with every call. It reads the file again after it has changed.
type tokenFile struct {
	file file
	// local tells that the token may be sent without TLS.
	local  bool
	logger *slog.Logger
	now    func() time.Time

	mu       sync.Mutex
	checked  time.Time
	modified time.Time
	header   string
}

var _ credentials.PerRPCCredentials = (*tokenFile)(nil)

func newTokenFile(f file, to address, logger *slog.Logger, now func() time.Time) (*tokenFile, error) {
	made := &tokenFile{file: f, local: to.local(), logger: logger, now: now, checked: now()}
	return made, made.readIfChanged()
}

// RequireTransportSecurity makes gRPC refuse a connection without TLS that leaves the machine.
func (t *tokenFile) RequireTransportSecurity() bool { return !t.local }

// GetRequestMetadata looks at the file at most once a second. If it cannot be read, the last token stays.
func (t *tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.checked) >= tokenCheckInterval {
		t.checked = now
		if err := t.readIfChanged(); err != nil {
			t.logger.Warn("failed to read the token file again, the last token stays", "error", err)
		}
	}
	return map[string]string{"authorization": t.header}, nil
}

func (t *tokenFile) readIfChanged() error {
	info, err := os.Stat(t.file.path)
	if err != nil {
		return fmt.Errorf("sessiond: %s: %w", t.file.source, err)
	}
	if t.header != "" && info.ModTime().Equal(t.modified) {
		return nil
	}
	content, err := t.file.read()
	if err != nil {
		return err
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c < '!' || c > '~' }) {
		return fmt.Errorf("sessiond: %s: %s has no token; it must have one line of visible ASCII", t.file.source, t.file.path)
	}
	// Only now, so that a file that was caught half written is read again.
	t.header, t.modified = "Bearer "+token, info.ModTime()
	return nil
}
