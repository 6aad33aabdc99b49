package sessiond

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// pageSize is the server's maximum, which is also the most refs of a request. It also cuts pages at the size of a message.
const pageSize = 1000

const asText = pb.JsonForm_JSON_FORM_TEXT

// client calls one server, with deadlines and retries. It connects at the first call.
type client struct {
	sessions pb.SessionServiceClient
	events   pb.EventServiceClient
	state    pb.StateServiceClient

	timeout time.Duration
	// absence is how long a call waits for a server to which no connection can be made.
	absence time.Duration
	retry   RetryPolicy
	conns   *connections

	// mu guards closed and the first Add of inFlight against Close.
	mu       sync.Mutex
	closed   bool
	inFlight sync.WaitGroup
	// closing ends watches and the pauses between attempts.
	closing chan struct{}
}

func newClient(to address, s settings) (*client, error) {
	files := s.files.orEnvironment(to, len(s.dial) > 0)
	transport, err := files.transport(to)
	if err != nil {
		return nil, err
	}
	options := dialOptions(transport, s.dial)
	if files.token.path != "" {
		token, err := newTokenFile(files.token, to, s.logger, time.Now)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	conns, err := newConnections(to.target, options)
	if err != nil && files.token.path != "" && !to.tls && !to.local() {
		return nil, fmt.Errorf("sessiond: refusing to send a token to %s without TLS; use https://HOST:PORT: %w", to.target, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sessiond: %w", err)
	}
	return &client{
		sessions: pb.NewSessionServiceClient(conns.first),
		events:   pb.NewEventServiceClient(conns.first),
		state:    pb.NewStateServiceClient(conns.first),
		timeout:  cmp.Or(s.timeout, defaultTimeout),
		absence:  s.absence(to),
		retry:    s.retry,
		conns:    conns,
		closing:  make(chan struct{}),
	}, nil
}

// begin counts a call as in-flight until the function that it returns is called.
func (c *client) begin() (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, closedError()
	}
	c.inFlight.Add(1)
	return c.inFlight.Done, nil
}

// close refuses new calls, ends watches, waits for in-flight calls and closes the connections.
func (c *client) close(grace time.Duration) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.closing)
	c.mu.Unlock()

	done := make(chan struct{})
	go func() {
		c.inFlight.Wait()
		close(done)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	// Cancels what is still in flight, so the goroutine above ends too.
	return c.conns.close()
}

func (c *client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// call sends a request until it succeeds, fails for good, or no time or attempt is left. Every attempt sends the same
// request with the same ids, so "yes" and "same_id" are retried alike. Its error is always an *Error.
func call[Request, Response any](
	ctx context.Context,
	c *client,
	method func(context.Context, *Request, ...grpc.CallOption) (*Response, error),
	request *Request,
) (*Response, error) {
	if refused := checkText(request); refused != nil {
		return nil, refused
	}
	end, err := c.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(withAffinity(ctx, request), c.timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	begun := time.Now()

	mayBeApplied := false
	for attempts := 1; ; attempts++ {
		response, err := method(ctx, request)
		if err == nil {
			return response, nil
		}
		failure := newError(err)
		failure.Attempts = attempts
		mayBeApplied = mayBeApplied || failure.outcomeUnknown()
		failure.MayBeApplied = mayBeApplied
		if failure.Code == codes.Canceled && ctx.Err() == nil && c.isClosing() {
			failure.cause = ErrClosed
		}
		failure.endedBy(ctx)

		delay := c.retry.delay(attempts, failure.RetryAfter)
		// Waiting past the deadline would replace this error by a DEADLINE_EXCEEDED, which says less.
		if failure.Retryable() == "no" || c.retry.exhausted(attempts) || time.Until(deadline) <= delay ||
			c.isAbsent(failure) && time.Since(begun)+delay >= c.absence {
			return nil, failure
		}
		if err := c.pause(ctx, delay); err != nil {
			failure.cause = err
			return nil, failure
		}
	}
}

// isAbsent reports whether there is no server: the channel could not connect.
func (c *client) isAbsent(failure *Error) bool {
	return failure.Code == codes.Unavailable && failure.Reason == "" && c.conns.first.GetState() == connectivity.TransientFailure
}

// pause waits. It returns the error of what ended the pause early.
func (c *client) pause(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return ErrClosed
	}
}

// listEvents calls yield with every event from the page of request on, until it returns false. It changes request.
func (c *client) listEvents(ctx context.Context, request *pb.ListEventsRequest, yield func(*pb.Event) bool) error {
	request.PageSize = pageSize
	request.JsonForm = asText
	for {
		page, err := call(ctx, c, c.events.ListEvents, request)
		if err != nil {
			return err
		}
		for _, event := range page.Events {
			if !yield(event) {
				return nil
			}
		}
		if page.NextPageToken == "" {
			return nil
		}
		request.PageToken = page.NextPageToken
	}
}

// asError returns the failed call in err's chain, or nil.
func asError(err error) *Error {
	if found, ok := errors.AsType[*Error](err); ok {
		return found
	}
	return nil
}
