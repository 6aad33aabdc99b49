package sessiond

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// Key is the address of a session.
type Key struct {
	AppName, UserID, SessionID string
	// UID names the life of the id that writes are meant for: a session that was deleted and created anew has another one,
	// and a write fails with [ErrStale]. Empty: any life. [KeyOf] sets it. Reads do not check it.
	UID string
}

// KeyOf returns the key of a session. That of a session of this package has its UID.
func KeyOf(s session.Session) Key {
	key := Key{AppName: s.AppName(), UserID: s.UserID(), SessionID: s.ID()}
	if own, err := ownSession(s); err == nil {
		own.mu.RLock()
		defer own.mu.RUnlock()
		key.UID = own.uid
	}
	return key
}

func (k Key) precondition() *pb.Precondition { return uidPrecondition(k.UID) }

func uidPrecondition(uid string) *pb.Precondition {
	if uid == "" {
		return nil
	}
	return &pb.Precondition{Uid: uid}
}

func (k Key) encode() (*pb.SessionKey, error) { return sessionKey(k.AppName, k.UserID, k.SessionID) }

// StoredEvent is an event with its place in the log.
type StoredEvent struct {
	Event *session.Event
	// Sequence is the event's number in the session's log, from 1.
	Sequence int64
	// CommitTime is the time of the commit on the server's clock.
	CommitTime time.Time
	// Rewound tells that a rewind hides the event from Get.
	Rewound bool
	// RewindTo is set on the marker of a rewind: the last event that stayed visible.
	RewindTo *int64
}

func (s *Service) storedEvent(stored *pb.Event) StoredEvent {
	return StoredEvent{
		Event:      decodeEvent(stored, s.logger),
		Sequence:   stored.Sequence,
		CommitTime: stored.CommitTime.AsTime(),
		Rewound:    stored.Rewound,
		RewindTo:   stored.RewindToSequence,
	}
}

// GetAsOf reads a session as it was right after an event, with the state of all scopes. 0: as it was created. [Error] with
// the reason BEYOND_LAST_SEQUENCE if there is no such event.
func (s *Service) GetAsOf(
	ctx context.Context, request *session.GetRequest, sequence int64,
) (*session.GetResponse, error) {
	return s.get(ctx, request, &sequence)
}

// EventsQuery selects events of [Service.ListEvents].
type EventsQuery struct {
	// AfterSequence selects events with a greater sequence.
	AfterSequence int64
	// IncludeRewound also selects what a rewind has hidden, and the markers of rewinds.
	IncludeRewound bool
}

// ListEvents yields a session's events with their sequences, oldest first, page by page. It ends with an error, if any.
func (s *Service) ListEvents(ctx context.Context, key Key, query EventsQuery) iter.Seq2[StoredEvent, error] {
	return func(yield func(StoredEvent, error) bool) {
		target, err := key.encode()
		if err != nil {
			yield(StoredEvent{}, err)
			return
		}
		selection := &pb.EventSelection{AfterSequence: query.AfterSequence, IncludeRewound: query.IncludeRewound}
		request := &pb.ListEventsRequest{Key: target, Selection: selection}
		err = s.client.listEvents(ctx, request, func(event *pb.Event) bool { return yield(s.storedEvent(event), nil) })
		if err != nil {
			yield(StoredEvent{}, readError(err, key.SessionID))
		}
	}
}

// EventRef names an event of a session: [ByID] or [BySequence].
type EventRef struct {
	// ID names the event if Sequence is 0.
	ID       string
	Sequence int64
}

// ByID names the event with an id.
func ByID(id string) EventRef { return EventRef{ID: id} }

// BySequence names the event with a number in the session's log, from 1.
func BySequence(sequence int64) EventRef { return EventRef{Sequence: sequence} }

func (r EventRef) encode() *pb.EventRef {
	if r.Sequence != 0 {
		return &pb.EventRef{Ref: &pb.EventRef_Sequence{Sequence: r.Sequence}}
	}
	return &pb.EventRef{Ref: &pb.EventRef_EventId{EventId: r.ID}}
}

// GetEvents reads events of a session, also those that a rewind hid. It returns them in the order of refs, one that is named
// twice twice, and the refs that name no event. Without refs it sends nothing. [ErrNotFound] if the session does not exist.
// [ErrInvalid] (INVALID_ARGUMENT) if an id is empty, which BySequence(0) also means, or a sequence is negative.
func (s *Service) GetEvents(
	ctx context.Context, key Key, refs ...EventRef,
) (found []StoredEvent, missing []EventRef, err error) {
	target, err := key.encode()
	if err != nil {
		return nil, nil, err
	}
	for named := range slices.Chunk(refs, pageSize) {
		request := &pb.BatchGetEventsRequest{Key: target, JsonForm: asText}
		for _, ref := range named {
			request.Refs = append(request.Refs, ref.encode())
		}
		for more := true; more; more = request.PageToken != "" {
			page, err := call(ctx, s.client, s.client.events.BatchGetEvents, request)
			if err != nil {
				return nil, nil, readError(err, key.SessionID)
			}
			for _, event := range page.Events {
				found = append(found, s.storedEvent(event))
			}
			for _, ref := range page.Missing {
				missing = append(missing, EventRef{ID: ref.GetEventId(), Sequence: ref.GetSequence()})
			}
			request.PageToken = page.NextPageToken
		}
	}
	return found, missing, nil
}

// ForkRequest says what [Service.Fork] copies.
type ForkRequest struct {
	Source Key
	// UpTo is the sequence of the last event to take over; nil: all, 0: none.
	UpTo *int64
	// SessionID is the id of the new session; empty: a UUID.
	SessionID string
}

// Fork creates a session with the events of another up to a sequence, its own state as of then, its display name, labels
// and expiration. It returns the new
// session without events; Get reads them. [ErrNotFound] if the source does not exist, [ErrAlreadyExists] if the new id is
// taken.
func (s *Service) Fork(ctx context.Context, request ForkRequest) (session.Session, error) {
	source, err := request.Source.encode()
	if err != nil {
		return nil, err
	}
	id := request.SessionID
	if id == "" {
		id = newID()
	}
	forked, err := call(ctx, s.client, s.client.sessions.ForkSession, &pb.ForkSessionRequest{
		Key: source, UpToSequence: request.UpTo, SessionId: id, JsonForm: asText, Precondition: request.Source.precondition(),
	})
	stored := forked.GetSession()
	if err != nil {
		// The response of an earlier attempt may be lost. A fork has no creation label, but it names its source.
		target := &pb.SessionKey{AppName: source.AppName, UserId: source.UserId, SessionId: id}
		stored = s.possiblyCreated(ctx, err, target)
		origin := stored.GetForkedFrom()
		sameSource := origin.GetKey().GetSessionId() == source.SessionId && origin.GetKey().GetUserId() == source.UserId
		if stored == nil || !sameSource || (request.UpTo != nil && origin.Sequence != *request.UpTo) {
			return nil, fmt.Errorf("fork session %q: %w", source.SessionId, err)
		}
	}
	result, err := s.open(ctx, stored, nil)
	if err != nil {
		return nil, fmt.Errorf("fork session %q: %w", source.SessionId, err)
	}
	return result, nil
}

// Rewind takes a session back to an event (0: as created), and reads it. Get no longer shows the events after it;
// [Service.ListEvents] does with IncludeRewound, and a rewind can be rewound. Application and user state stay.
func (s *Service) Rewind(ctx context.Context, key Key, toSequence int64) (session.Session, error) {
	target, err := key.encode()
	if err != nil {
		return nil, err
	}
	_, err = call(ctx, s.client, s.client.sessions.RewindSession, &pb.RewindSessionRequest{
		Key: target, ToSequence: &toSequence, EventId: newID(), JsonForm: asText, Precondition: key.precondition(),
	})
	if err != nil {
		return nil, fmt.Errorf("rewind session %q: %w", target.SessionId, err)
	}
	result, err := s.read(ctx, target, &pb.EventSelection{}, nil)
	if err != nil {
		return nil, readError(err, target.SessionId)
	}
	return result, nil
}

// Expire makes a session expire a while after the commit. Using the session does not postpone that; calling Expire again
// does. It returns the expiry on the server's clock. An expired session is as if deleted; application and user state stay.
func (s *Service) Expire(ctx context.Context, key Key, after time.Duration) (time.Time, error) {
	if after <= 0 {
		return time.Time{}, errors.New("sessiond: the duration must be positive; use Delete to delete a session")
	}
	expiry := &pb.Session{Expiration: &pb.Session_Ttl{Ttl: durationpb.New(after)}}
	return s.updateExpiry(ctx, key, expiry, "ttl")
}

// ExpireAt makes a session expire at a time of the server's clock; never, if at is zero.
func (s *Service) ExpireAt(ctx context.Context, key Key, at time.Time) (time.Time, error) {
	expiry := &pb.Session{}
	if !at.IsZero() {
		expiry.Expiration = &pb.Session_ExpireTime{ExpireTime: timestamppb.New(at)}
	}
	return s.updateExpiry(ctx, key, expiry, "expire_time")
}

func (s *Service) updateExpiry(ctx context.Context, key Key, expiry *pb.Session, field string) (time.Time, error) {
	target, err := key.encode()
	if err != nil {
		return time.Time{}, err
	}
	updated, err := call(ctx, s.client, s.client.sessions.UpdateSession, &pb.UpdateSessionRequest{
		Key: target, Session: expiry, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{field}},
		Precondition: key.precondition(),
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("expire session %q: %w", target.SessionId, err)
	}
	if time := updated.Session.GetExpireTime(); time != nil {
		return time.AsTime(), nil
	}
	return time.Time{}, nil
}
