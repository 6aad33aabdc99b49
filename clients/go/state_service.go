package sessiond

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/adk/v2/session"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// systemAuthor is the author of events that no agent has made.
const systemAuthor = "system"

func newID() string { return uuid.NewString() }

// Scope is an application, a user or a session, as the owner of state. Leave SessionID empty for a user, and UserID as well
// for an application.
type Scope struct {
	AppName, UserID, SessionID string
	// UID is that of [Key], for [Service.UpdateState].
	UID string
}

func (s Scope) encode() (*pb.Scope, error) {
	if s.AppName == "" || (s.SessionID != "" && s.UserID == "") {
		return nil, fmt.Errorf("sessiond: the scope %+v has no application, or a session without its user", s)
	}
	return &pb.Scope{AppName: s.AppName, UserId: s.UserID, SessionId: s.SessionID}, nil
}

// Change changes state that is visible from a session with an event without content, and updates the session. It returns
// the event, whose delta has the new value of each key, nil for removed keys. [Error] with the reason TYPE_MISMATCH if an
// operation does not fit the stored value.
func (s *Service) Change(ctx context.Context, target session.Session, delta Delta) (*session.Event, error) {
	done, err := s.change(ctx, target, delta)
	if err != nil {
		return nil, err
	}
	return done.event, nil
}

func (s *Service) change(ctx context.Context, target session.Session, delta Delta) (*appended, error) {
	event := session.NewEvent(ctx, "")
	event.Author = systemAuthor
	event.Actions.StateDelta = delta.Set
	return s.append(ctx, target, event, delta.Operations)
}

// operate appends an event with one operation, and returns the JSON text of its key right after that commit.
func (s *Service) operate(ctx context.Context, target session.Session, operation Operation) (string, error) {
	if isTemp(operation.key()) {
		return "", fmt.Errorf("sessiond: %q belongs to an invocation; pass the operation to AppendEventWith", operation.key())
	}
	done, err := s.change(ctx, target, Delta{Operations: []Operation{operation}})
	if err != nil {
		return "", err
	}
	texts, err := splitObject(done.response.Event.GetStateDelta().GetSetJson())
	if err != nil {
		return "", err
	}
	if text, ok := texts[operation.key()]; ok {
		return text, nil
	}
	// The commit did not change the key. The state of a replay is that of now, so it is read as of the commit.
	state := done.response.Session
	if done.response.Replayed || state.GetStateJson() == "" {
		key := done.response.Session.GetKey()
		sequence := done.response.Event.GetSequence()
		read, err := call(ctx, s.client, s.client.sessions.GetSession,
			&pb.GetSessionRequest{Key: key, AsOfSequence: &sequence, JsonForm: asText})
		if err != nil {
			return "", err
		}
		if read.Session.GetUid() != done.response.Session.GetUid() {
			return "", replacedError(key.GetSessionId())
		}
		state = read.Session
	}
	if texts, err = splitObject(state.GetStateJson()); err != nil {
		return "", err
	}
	if text, ok := texts[operation.key()]; ok {
		return text, nil
	}
	return "null", nil
}

// The next five return the result of their own commit, even if others have changed the key since. A failed call that is
// repeated is a second operation; an operation that must apply once belongs to an event, see [Service.AppendEventWith].

// Increment adds to a number and returns the sum, exactly. No concurrent increment is lost, and no two return one sum.
func (s *Service) Increment(ctx context.Context, target session.Session, key string, by int64) (json.Number, error) {
	text, err := s.operate(ctx, target, Increment{Key: key, By: by})
	return json.Number(text), err
}

// AppendToList appends values to a list, keeps its newest maxLength items (0: all), and returns it.
func (s *Service) AppendToList(
	ctx context.Context, target session.Session, key string, values []any, maxLength int,
) ([]any, error) {
	text, err := s.operate(ctx, target, ListAppend{Key: key, Values: values, MaxLength: maxLength})
	if err != nil {
		return nil, err
	}
	list, _ := decodeValue(text).([]any)
	return list, nil
}

// SetIfAbsent sets a key that has no value, and returns its value, whether this call or another has set it.
func (s *Service) SetIfAbsent(ctx context.Context, target session.Session, key string, value any) (any, error) {
	text, err := s.operate(ctx, target, SetIfAbsent{Key: key, Value: value})
	if err != nil {
		return nil, err
	}
	return decodeValue(text), nil
}

// Merge merges patch into an object (RFC 7396: nil removes a member), and returns it.
func (s *Service) Merge(
	ctx context.Context, target session.Session, key string, patch map[string]any,
) (map[string]any, error) {
	text, err := s.operate(ctx, target, MergePatch{Key: key, Patch: patch})
	if err != nil {
		return nil, err
	}
	merged, _ := decodeValue(text).(map[string]any)
	return merged, nil
}

// Remove removes keys. Setting a key to nil stores a null instead.
func (s *Service) Remove(ctx context.Context, target session.Session, keys ...string) error {
	delta := Delta{}
	for _, key := range keys {
		delta.Operations = append(delta.Operations, Remove{Key: key})
	}
	_, err := s.change(ctx, target, delta)
	return err
}

// Refresh updates a session in place to what is stored, including the events of others. Uncommitted changes of its state
// are lost. `temp:` keys stay. [ErrNotFound] if the session does not exist any more, [ErrStale] if it was created anew
// since: Get returns the new one.
func (s *Service) Refresh(ctx context.Context, target session.Session) error {
	own, err := ownSession(target)
	if err != nil {
		return err
	}
	// Without the lock, the session that is read could lack an event that an in-flight append adds.
	if err := own.lock(ctx); err != nil {
		return err
	}
	defer own.unlock()
	fresh, err := s.read(ctx, own.key(), &pb.EventSelection{}, nil)
	if err != nil {
		return readError(err, own.id)
	}
	if err := own.replaceWith(fresh); err != nil {
		return fmt.Errorf("stale session error: refresh session %q: %w", own.id, err)
	}
	return nil
}

// GetState reads the merged state of an application, a user or a session, with prefixed keys. An application or a user
// without state has an empty map; a missing session is [ErrNotFound].
func (s *Service) GetState(ctx context.Context, scope Scope) (map[string]any, error) {
	return s.GetStateWithin(ctx, scope, "")
}

// GetStateWithin is [Service.GetState] with the `temp:` keys that were shared in an invocation.
func (s *Service) GetStateWithin(ctx context.Context, scope Scope, invocationID string) (map[string]any, error) {
	target, err := scope.encode()
	if err != nil {
		return nil, err
	}
	found, err := s.readState(ctx, &pb.GetStateRequest{Scope: target, InvocationId: invocationID})
	if err != nil {
		return nil, fmt.Errorf("get state: %w", err)
	}
	s.warnDamaged(scope.SessionID, found.damaged)
	return decodeValues(found.texts), nil
}

// UpdateState changes state outside an invocation, and returns the merged state of the scope with prefixed keys. An
// application's scope accepts `app:` keys; a user's, `app:` and `user:` keys; a session's, all but `temp:` keys. A change
// through a session is an event of its log. Retries within the call apply the delta once.
func (s *Service) UpdateState(ctx context.Context, scope Scope, delta Delta) (map[string]any, error) {
	target, err := scope.encode()
	if err != nil {
		return nil, err
	}
	mended := &mendedKeys{}
	encoded, err := delta.encode(mended)
	if err != nil {
		return nil, err
	}
	mended.warn(s.logger)
	request := &pb.UpdateStateRequest{
		Scope: target, Delta: encoded, RequestId: newID(), JsonForm: asText, Precondition: uidPrecondition(scope.UID),
	}
	response, err := call(ctx, s.client, s.client.state.UpdateState, request)
	if err != nil {
		return nil, fmt.Errorf("update state: %w", err)
	}
	if response.StateOmitted {
		return s.GetState(ctx, scope)
	}
	s.warnDamaged(scope.SessionID, response.DamagedKeys)
	texts, err := splitObject(response.GetStateJson())
	return decodeValues(texts), err
}

// EndInvocation drops the `temp:` keys that were shared in an invocation. Otherwise they expire after an hour without use.
func (s *Service) EndInvocation(ctx context.Context, target session.Session, invocationID string) error {
	if target == nil {
		return errors.New("sessiond: the session is nil")
	}
	key, err := sessionKey(target.AppName(), target.UserID(), target.ID())
	if err != nil {
		return err
	}
	_, err = call(ctx, s.client, s.client.state.EndInvocation, &pb.EndInvocationRequest{Key: key, InvocationId: invocationID})
	if err != nil {
		return fmt.Errorf("end invocation %q: %w", invocationID, err)
	}
	return nil
}
