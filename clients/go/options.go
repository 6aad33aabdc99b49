package sessiond

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	// Long enough for a server that restarts or is busy, short enough for a user who waits for a response.
	defaultTimeout = 15 * time.Second
	maxTimeout     = 24 * time.Hour
	// A sidecar that is not there within it was not started, and a user should not wait for the error.
	localAbsence = 3 * time.Second

	defaultCloseGrace = 5 * time.Second

	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 20 * time.Second
)

// Staleness decides about an append from a session object that others have overtaken.
type Staleness string

const (
	// Merge is the default: the server merges deltas key by key, and the object is brought up to date.
	Merge Staleness = "merge"
	// Conflict refuses an append with [ErrStale] if another writer has changed a key that the event sets or removes since
	// the object was read. Operations that are evaluated in the commit do not conflict.
	Conflict Staleness = "conflict"
	// Refuse refuses an append with [ErrStale] if anything was appended to the session since the object was read, as the
	// ADK's database service does. In an address it is called "error".
	Refuse Staleness = "error"
)

func (s Staleness) validate() error {
	switch s {
	case Merge, Conflict, Refuse:
		return nil
	}
	return fmt.Errorf("sessiond: stale is %q; it must be %q, %q or %q", string(s), Merge, Conflict, Refuse)
}

// Option configures a [Service].
type Option func(*settings) error

type settings struct {
	// timeout is 0 unless an option or the address sets it.
	timeout    time.Duration
	closeGrace time.Duration
	stale      Staleness
	shareTemp  bool
	retry      RetryPolicy
	logger     *slog.Logger
	files      credentialFiles
	dial       []grpc.DialOption
}

// absence is how long a call waits for a server to which no connection can be made.
func (s *settings) absence(to address) time.Duration {
	if s.timeout == 0 && to.local() {
		return localAbsence
	}
	return cmp.Or(s.timeout, defaultTimeout)
}

// WithTimeout sets the deadline of a call, its retries included. The default is 15 seconds, or 3 seconds as long as no
// connection can be made to an address of this machine. The context of a call can only shorten it.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) error {
		if timeout <= 0 || timeout > maxTimeout {
			return fmt.Errorf("sessiond: timeout is %v; it must be positive and at most %v", timeout, maxTimeout)
		}
		s.timeout = timeout
		return nil
	}
}

// WithStaleness sets what happens to an append from an outdated session object. The default is [Merge].
func WithStaleness(stale Staleness) Option {
	return func(s *settings) error {
		s.stale = stale
		return stale.validate()
	}
}

// WithRetryPolicy sets the maximum and the delays of the attempts of a call.
func WithRetryPolicy(policy RetryPolicy) Option {
	return func(s *settings) error {
		s.retry = policy
		return policy.validate()
	}
}

// WithSharedTemp also sends `temp:` keys, for other processes of the same invocation, until
// [Service.EndInvocation] or for an hour after their last use. They are never stored. By default they stay in the process.
func WithSharedTemp() Option {
	return func(s *settings) error {
		s.shareTemp = true
		return nil
	}
}

// WithLogger sets the logger of warnings: a stored event that this version of the ADK can read only in part. The default
// is [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		if logger == nil {
			return errors.New("sessiond: the logger is nil")
		}
		s.logger = logger
		return nil
	}
}

// WithCloseGrace sets how long [Service.Close] waits for in-flight calls. The default is 5 seconds.
func WithCloseGrace(grace time.Duration) Option {
	return func(s *settings) error {
		if grace < 0 {
			return fmt.Errorf("sessiond: the close grace is %v; it must not be negative", grace)
		}
		s.closeGrace = grace
		return nil
	}
}

// WithTLSCA trusts the authorities in a PEM file, and not those of the system. It needs an https address. The default is
// the environment variable SESSIOND_TLS_CA.
func WithTLSCA(path string) Option {
	return withFile("WithTLSCA", path, func(s *settings) *file { return &s.files.ca })
}

// WithClientCertificate shows the server a certificate, from PEM files. It needs an https address. The defaults are the
// environment variables SESSIOND_CLIENT_TLS_CERT and SESSIOND_CLIENT_TLS_KEY.
func WithClientCertificate(certificate, key string) Option {
	return func(s *settings) error {
		const name = "WithClientCertificate"
		if err := withFile(name, certificate, func(s *settings) *file { return &s.files.certificate })(s); err != nil {
			return err
		}
		return withFile(name, key, func(s *settings) *file { return &s.files.key })(s)
	}
}

// WithTokenFile sends the token in a file with every call and watch. The file is read again when it changes. Without TLS
// the address must be a loopback address or a Unix socket. The default is the environment variable SESSIOND_TOKEN_FILE.
func WithTokenFile(path string) Option {
	return withFile("WithTokenFile", path, func(s *settings) *file { return &s.files.token })
}

func withFile(option, path string, field func(*settings) *file) Option {
	return func(s *settings) error {
		if path == "" {
			return fmt.Errorf("sessiond: %s has an empty path", option)
		}
		*field(s) = file{path, option}
		return nil
	}
}

// WithDialOptions passes options to gRPC, after the defaults of this package: transport credentials for TLS, per-call
// credentials for tokens, interceptors. They are those of every connection: a dialer is called for each.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) error {
		s.dial = append(s.dial, options...)
		return nil
	}
}

// dialOptions returns the defaults, then those of the caller, which win.
func dialOptions(transport credentials.TransportCredentials, more []grpc.DialOption) []grpc.DialOption {
	defaults := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		// A sidecar restarts quickly. With gRPC's own backoff (1 s to 2 minutes) the channel would stay down long after
		// the server is back.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection with calls in flight is pinged, so that a dead one is noticed.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		// client.go does the retries, as it knows which calls may be sent again.
		grpc.WithDisableRetry(),
		// The server is local; HTTP proxies of the environment are meant for other hosts.
		grpc.WithNoProxy(),
		// An idle channel would make the first call after a pause pay for a new connection.
		grpc.WithIdleTimeout(0),
	}
	return slices.Concat(defaults, withTraceContext(), more)
}
