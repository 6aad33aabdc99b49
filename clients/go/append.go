package sessiond

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// appended is the result of an append.
type appended struct {
	// event is the one in the session's list: the caller's, or a copy with the delta as it was stored.
	event    *session.Event
	response *pb.AppendEventResponse
}

// append sends event with its delta and operations in one commit, and updates the session after the response. A failed
// call can be repeated with the same event and operations, and takes effect once.
func (s *Service) append(
	ctx context.Context, target session.Session, event *session.Event, operations []Operation,
) (*appended, error) {
	own, err := ownSession(target)
	if err != nil {
		return nil, err
	}
	if event == nil {
		return nil, errors.New("sessiond: the event is nil")
	}
	for _, operation := range operations {
		if operation != nil && isTemp(operation.key()) && !s.shareTemp {
			return nil, fmt.Errorf("sessiond: the server cannot change %q, which is not shared; use WithSharedTemp", operation.key())
		}
	}
	if event.ID == "" {
		// The id is the caller's from now on: a second call with the same event must not be a second event.
		event.ID = platform.NewUUID(ctx)
	}
	encoded, err := encodeEvent(event, operations, s.shareTemp, s.logger)
	if err != nil {
		return nil, err
	}
	if err := own.lock(ctx); err != nil {
		return nil, err
	}
	defer own.unlock()

	request := &pb.AppendEventRequest{
		Key: own.key(), Event: encoded.message, ReturnState: true, JsonForm: asText, IncludeVersions: s.needsVersions(),
	}
	request.Precondition = own.precondition(s.stale, encoded.texts, operations)
	response, err := call(ctx, s.client, s.client.events.AppendEvent, request)
	if err != nil {
		return nil, appendError(err, event.ID, own.id)
	}
	if response.Session.GetStateOmitted() && s.stale != Refuse {
		// The event is stored, whether the state can be read or not.
		if err := s.completeState(ctx, response.Session); err != nil {
			s.logger.Warn("sessiond: failed to read the state after an append", "session", own.id, "error", err)
		}
	}
	s.warnDamaged(own.id, response.Session.GetDamagedKeys())
	return own.finish(s.stale, event, encoded, operations, response)
}

// appendError says what failed in the ADK's words, and whether the outcome is unknown.
func appendError(err error, eventID, sessionID string) error {
	switch failure := asError(err); {
	case failure == nil:
		return err
	case failure.Reason == reasonReplaced:
		return fmt.Errorf("stale session error: session %q was deleted and created anew: %w", sessionID, err)
	case errors.Is(failure, ErrStale):
		return fmt.Errorf("stale session error: session %q has been modified in storage: %w", sessionID, err)
	case errors.Is(failure, ErrNotFound):
		return fmt.Errorf("session %q not found: %w", sessionID, err)
	case errors.Is(failure, ErrAlreadyExists):
		return fmt.Errorf("another event %q already exists in session %q: %w", eventID, sessionID, err)
	case failure.MayBeApplied:
		return fmt.Errorf("append event %q to session %q (may have been applied; repeat it with the same event): %w",
			eventID, sessionID, err)
	}
	return fmt.Errorf("append event %q to session %q: %w", eventID, sessionID, err)
}

func (s *storedSession) lock(ctx context.Context) error {
	// Otherwise select picks at random if both are ready.
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.appending <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *storedSession) unlock() { <-s.appending }

// finish updates the session to what is stored. The caller holds the append lock.
func (s *storedSession) finish(
	stale Staleness, event *session.Event, encoded *encodedEvent, operations []Operation, response *pb.AppendEventResponse,
) (*appended, error) {
	result := &appended{event: storedForm(event, operations, response.Event), response: response}
	stored := response.Session
	operated := make([]string, 0, len(operations))
	for _, operation := range operations {
		operated = append(operated, operation.key())
	}
	u := update{
		own: event.Actions.StateDelta, ownTexts: encoded.texts,
		removed: response.Event.GetStateDelta().GetRemove(), operated: operated, sequence: stored.GetLastSequence(),
	}
	if stored.GetStateJson() != "" {
		var err error
		if u.stored, err = storedValues(stored); err != nil {
			return nil, err
		}
	} else {
		operationResults(&u, result.event, operations)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	// `temp:` keys live in the session until the invocation ends, and are not stored.
	for key, value := range event.Actions.StateDelta {
		if isTemp(key) {
			s.state[key] = value
		}
	}
	if stale == Refuse {
		// The session advances no further than its own events. A replay can be answered long after others have appended,
		// and must not hide their events from the next append.
		sequence := response.Event.GetSequence()
		if sequence != s.sequence+1 {
			return result, nil
		}
		u.sequence = sequence
		if sequence != stored.GetLastSequence() {
			// The state of the response has changes of later events.
			u.stored = nil
			operationResults(&u, result.event, operations)
		}
	}
	s.uid = cmp.Or(s.uid, stored.GetUid())
	s.apply(u)
	if !response.Replayed || !s.hasEvent(event.ID) {
		s.events = append(s.events, result.event)
	}
	s.updated = stored.GetLastEventTime().AsTime()
	if u.sequence != stored.GetLastSequence() || event.Timestamp.Equal(s.updated) {
		s.updated = event.Timestamp
	}
	return result, nil
}

// storedForm returns the event as a later read returns it: without `temp:` keys, and with the results of operations. The
// caller's event stays as it is, so that the same append can be repeated.
func storedForm(event *session.Event, operations []Operation, stored *pb.Event) *session.Event {
	kept := withoutTemp(event.Actions.StateDelta)
	if len(kept) == len(event.Actions.StateDelta) && len(operations) == 0 {
		return event
	}
	results := decodeDelta(stored.GetStateDelta())
	for _, operation := range operations {
		key := operation.key()
		if value, changed := results[key]; changed {
			kept[key] = value
		} else {
			// The operation has changed nothing, or removed what the event itself had set.
			delete(kept, key)
		}
	}
	trimmed := *event
	trimmed.Actions.StateDelta = kept
	return &trimmed
}

// operationResults adds the values that operations have made to what the caller has written, for a response without state.
func operationResults(u *update, event *session.Event, operations []Operation) {
	if len(operations) == 0 {
		return
	}
	u.own, u.ownTexts = maps.Clone(u.own), maps.Clone(u.ownTexts)
	if u.own == nil {
		u.own = map[string]any{}
	}
	for _, operation := range operations {
		key := operation.key()
		value, changed := event.Actions.StateDelta[key]
		if !changed || slices.Contains(u.removed, key) {
			delete(u.ownTexts, key)
			continue
		}
		if text, err := encodeValue(key, value, nil); err == nil {
			u.own[key], u.ownTexts[key] = value, text
		}
	}
}

func (s *storedSession) hasEvent(id string) bool {
	return slices.ContainsFunc(s.events, func(event *session.Event) bool { return event.ID == id })
}
