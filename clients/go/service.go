package sessiond

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// creationLabel names the call that created a session, so that a retry recognizes the session of its first attempt.
const creationLabel = "sessiond-adk/creation"

// Service stores the ADK's sessions in sessiond. It is safe for concurrent use.
//
// The chain of an error of a failed call has an [Error] with the server's reason, and matches [ErrNotFound],
// [ErrAlreadyExists], [ErrStale], [ErrInvalid], [ErrUnavailable] or [ErrClosed]. A write that fails because the server is
// unreachable or slow, or because its context ends, may have been applied. Only an append of the same event can always be
// repeated; the README describes the other writes.
type Service struct {
	client     *client
	stale      Staleness
	shareTemp  bool
	closeGrace time.Duration
	logger     *slog.Logger
}

var (
	_ session.Service = (*Service)(nil)
	_ io.Closer       = (*Service)(nil)
)

// New returns a service for the server at address: `HOST:PORT`, `unix:/PATH`, `http(s)://HOST:PORT`, `sessiond://HOST:PORT`
// or `sessiond:///PATH` of a unix socket. `https` uses TLS, by default with the authorities of the system. A URI may set `timeout` (in
// seconds) and `stale`: `sessiond://127.0.0.1:50051?timeout=5&stale=error`; options win. New does not connect; the first
// call does. The error is that of an invalid address, option or file.
func New(address string, options ...Option) (*Service, error) {
	parsed, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	chosen := settings{
		timeout:    parsed.timeout,
		closeGrace: defaultCloseGrace,
		stale:      cmp.Or(parsed.stale, Merge),
		retry:      DefaultRetryPolicy(),
		logger:     slog.Default(),
	}
	for _, option := range options {
		if err := option(&chosen); err != nil {
			return nil, err
		}
	}
	chosen.logger = slog.New(quietHandler{chosen.logger.Handler()})
	connected, err := newClient(parsed, chosen)
	if err != nil {
		return nil, err
	}
	return &Service{
		client: connected, stale: chosen.stale, shareTemp: chosen.shareTemp, closeGrace: chosen.closeGrace, logger: chosen.logger,
	}, nil
}

// MustNew is [New] for an address that is known to be valid. It panics on an error.
func MustNew(address string, options ...Option) *Service {
	service, err := New(address, options...)
	if err != nil {
		panic(err)
	}
	return service
}

// Close refuses new calls, ends watches, waits a while for in-flight calls, and closes all connections.
func (s *Service) Close() error { return s.client.close(s.closeGrace) }

// Create creates a session. An empty id becomes a UUID. `temp:` keys of the state are dropped. A taken id is
// [ErrAlreadyExists].
func (s *Service) Create(ctx context.Context, request *session.CreateRequest) (*session.CreateResponse, error) {
	if request == nil {
		return nil, errors.New("sessiond: the request is nil")
	}
	if request.AppName == "" || request.UserID == "" {
		return nil, fmt.Errorf("sessiond: app_name and user_id are required, got app_name: %q, user_id: %q",
			request.AppName, request.UserID)
	}
	mended := &mendedKeys{}
	texts, err := encodeValues(request.State, false, mended)
	if err != nil {
		return nil, err
	}
	key := &pb.SessionKey{AppName: request.AppName, UserId: request.UserID, SessionId: request.SessionID}
	if key.SessionId == "" {
		key.SessionId = platform.NewUUID(ctx)
	}
	mended.warn(s.logger, "session", key.SessionId)
	creation := newID()
	created, err := call(ctx, s.client, s.client.sessions.CreateSession, &pb.CreateSessionRequest{
		AppName:         key.AppName,
		UserId:          key.UserId,
		SessionId:       key.SessionId,
		StateForm:       &pb.CreateSessionRequest_StateJson{StateJson: joinObject(texts)},
		Session:         &pb.Session{Labels: map[string]string{creationLabel: creation}},
		JsonForm:        asText,
		IncludeVersions: s.needsVersions(),
	})
	stored := created.GetSession()
	if err != nil {
		// The response of an earlier attempt may be lost. Its session has the label of this call.
		stored = s.possiblyCreated(ctx, err, key)
		if stored == nil || stored.Labels[creationLabel] != creation {
			return nil, createError(err, key.SessionId)
		}
	}
	result, err := s.open(ctx, stored, nil)
	if err != nil {
		return nil, createError(err, key.SessionId)
	}
	return &session.CreateResponse{Session: result}, nil
}

func createError(err error, id string) error {
	if errors.Is(err, ErrAlreadyExists) {
		return fmt.Errorf("session %q already exists: %w", id, err)
	}
	return fmt.Errorf("create session %q: %w", id, err)
}

// Get reads a session with the events that the request selects, oldest first; [ErrNotFound] if it does not exist. State
// and events belong to one moment, however many pages the events fill. With both filters, the newest NumRecentEvents of
// the events that are not older than After.
func (s *Service) Get(ctx context.Context, request *session.GetRequest) (*session.GetResponse, error) {
	return s.get(ctx, request, nil)
}

// List lists the sessions of a user, or of all users if UserID is empty, with merged state and without events, ordered by
// user and session id.
func (s *Service) List(ctx context.Context, request *session.ListRequest) (*session.ListResponse, error) {
	if request == nil || request.AppName == "" {
		return nil, errors.New("sessiond: app_name is required")
	}
	page := &pb.ListSessionsRequest{
		AppName: request.AppName, UserId: request.UserID, PageSize: pageSize, IncludeState: true, JsonForm: asText,
	}
	found := map[[2]string]*storedSession{}
	for {
		response, err := call(ctx, s.client, s.client.sessions.ListSessions, page)
		if err != nil {
			return nil, fmt.Errorf("list sessions of %q: %w", request.AppName, err)
		}
		for _, stored := range response.Sessions {
			one, err := s.open(ctx, stored, nil)
			if errors.Is(err, ErrNotFound) || errors.Is(err, ErrStale) {
				// It was deleted before the rest of its state was read.
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list sessions of %q: %w", request.AppName, err)
			}
			// A session that is used between two pages is in both. The later one is newer.
			found[[2]string{one.userID, one.id}] = one
		}
		if response.NextPageToken == "" {
			break
		}
		page.PageToken = response.NextPageToken
	}
	result := &session.ListResponse{Sessions: make([]session.Session, 0, len(found))}
	for _, address := range slices.SortedFunc(maps.Keys(found), compareAddresses) {
		result.Sessions = append(result.Sessions, found[address])
	}
	return result, nil
}

func compareAddresses(a, b [2]string) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

// Delete deletes a session with its events and its own state. A missing session is no error.
func (s *Service) Delete(ctx context.Context, request *session.DeleteRequest) error {
	if request == nil {
		return errors.New("sessiond: the request is nil")
	}
	key, err := sessionKey(request.AppName, request.UserID, request.SessionID)
	if err != nil {
		return err
	}
	return s.delete(ctx, key, nil)
}

// DeleteSession is [Service.Delete] for a [Key]. With a UID it deletes no session that was created under the id since.
func (s *Service) DeleteSession(ctx context.Context, key Key) error {
	target, err := key.encode()
	if err != nil {
		return err
	}
	return s.delete(ctx, target, key.precondition())
}

func (s *Service) delete(ctx context.Context, key *pb.SessionKey, condition *pb.Precondition) error {
	request := &pb.DeleteSessionRequest{Key: key, AllowMissing: true, Precondition: condition}
	if _, err := call(ctx, s.client, s.client.sessions.DeleteSession, request); err != nil {
		return fmt.Errorf("delete session %q: %w", key.SessionId, err)
	}
	return nil
}

// AppendEvent appends an event with its delta in one durable commit.
//
// The session must be one of this package. After the response, and only then, its state becomes the server's state after
// the commit, including the changes and removals of others, and the event is added to its events. Events of others are not
// added; Get and [Service.Refresh] read them. `temp:` keys go into the session and are not stored. The event itself is not
// changed, but for an empty id. A partial event changes nothing.
//
// An event that is stored already, with the same id and the same content, is not stored again; another event with that id
// is [ErrAlreadyExists]. [Conflict] and [Refuse] make an append from an outdated session fail with [ErrStale]. So does an
// append to a session that was deleted and created anew under its id, in every mode: it never reaches the new session.
func (s *Service) AppendEvent(ctx context.Context, target session.Session, event *session.Event) error {
	return s.AppendEventWith(ctx, target, event)
}

// AppendEventWith is [Service.AppendEvent] with operations that the server evaluates in the same commit, after the event's
// own delta. The event in the session's list has their results in its delta.
func (s *Service) AppendEventWith(
	ctx context.Context, target session.Session, event *session.Event, operations ...Operation,
) error {
	if event != nil && event.Partial {
		_, err := ownSession(target)
		return err
	}
	_, err := s.append(ctx, target, event, operations)
	return err
}
