package sessiond

import (
	"cmp"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/adk/v2/session"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// storedSession is the session object of this package. Agents read and write its state and read its events from several
// goroutines while appends change it.
type storedSession struct {
	appName, userID, id string
	// uid is the life of the id that this object belongs to. mu guards it: an answer of an append may be the first to name it.
	uid string

	// appending excludes other appends and refreshes of this object, whose responses would overtake each other. It is a
	// channel so that waiting for it ends with the context. It is held during calls; mu is not.
	appending chan struct{}

	mu sync.RWMutex
	// state has the values that agents see, including those that they have set and not committed yet.
	state map[string]any
	// stored has the values as the server last sent them; no `temp:` keys. They tell a change of another writer from one of
	// the caller. Of a key that the caller has set and not committed, it is the value that the caller saw before.
	stored map[string]storedValue
	// sequence is that of the newest stored event when the state was read.
	sequence int64
	// events is never written in place below its length: readers hold slices of it.
	events  []*session.Event
	updated time.Time
}

// storedValue is a value with the version of its key. Both come from the same response: a version that is newer than the
// value would hide the write of another writer from [Conflict].
type storedValue struct {
	text string
	// version is unknownVersion if the server has not sent it.
	version int64
}

const unknownVersion = -1

// storedValues returns the state of a response by key.
func storedValues(stored *pb.Session) (map[string]storedValue, error) {
	texts, err := splitObject(stored.GetStateJson())
	values := make(map[string]storedValue, len(texts))
	for key, text := range texts {
		version, known := stored.GetVersions()[key]
		if !known {
			version = unknownVersion
		}
		values[key] = storedValue{text, version}
	}
	return values, err
}

var (
	_ session.Session = (*storedSession)(nil)
	_ session.State   = (*stateView)(nil)
	_ session.Events  = eventList(nil)
)

// newSession makes the session object of a stored session, with the events that were read beside it.
func newSession(stored *pb.Session, events []*pb.Event, logger *slog.Logger) (*storedSession, error) {
	values, err := storedValues(stored)
	if err != nil {
		return nil, err
	}
	result := &storedSession{
		appName:   stored.GetKey().GetAppName(),
		userID:    stored.GetKey().GetUserId(),
		id:        stored.GetKey().GetSessionId(),
		uid:       stored.GetUid(),
		appending: make(chan struct{}, 1),
		state:     make(map[string]any, len(values)),
		stored:    values,
		sequence:  stored.GetLastSequence(),
		events:    make([]*session.Event, 0, len(events)),
		updated:   stored.GetLastEventTime().AsTime(),
	}
	for key, value := range values {
		result.state[key] = decodeValue(value.text)
	}
	for _, event := range events {
		result.events = append(result.events, decodeEvent(event, logger))
	}
	return result, nil
}

// ownSession returns the object behind a session of this package.
func ownSession(s session.Session) (*storedSession, error) {
	if own, ok := s.(*storedSession); ok && own != nil {
		return own, nil
	}
	return nil, fmt.Errorf("sessiond: unexpected session type %T; use a session of this service", s)
}

func (s *storedSession) ID() string      { return s.id }
func (s *storedSession) AppName() string { return s.appName }
func (s *storedSession) UserID() string  { return s.userID }

func (s *storedSession) State() session.State { return &stateView{s} }

// Events returns a snapshot.
func (s *storedSession) Events() session.Events {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return eventList(s.events)
}

func (s *storedSession) LastUpdateTime() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.updated
}

func (s *storedSession) key() *pb.SessionKey {
	return &pb.SessionKey{AppName: s.appName, UserId: s.userID, SessionId: s.id}
}

// update is what a response says about a session after an append.
type update struct {
	// stored has each stored value, and `temp:` keys if they are shared; nil if the response had no state.
	stored map[string]storedValue
	// own are the values that the caller has just written, sent as ownTexts.
	own      map[string]any
	ownTexts map[string]string
	// removed are the keys that the event has removed.
	removed []string
	// operated are the keys of the event's operations.
	operated []string
	sequence int64
}

// apply updates the state to what the server has. The caller holds mu.
//
//   - A key that the caller has just written keeps the caller's value, unless the server has another one.
//   - A key that others have changed gets their value. A key that others have removed is removed.
//   - A value that the caller has set and not committed stays, also if others have changed the key: tools write into the
//     state before their event is appended, and the append of another branch must not undo that. The stored value that
//     the caller saw stays with it, so that the append of that value can be recognized as a conflict.
//   - `temp:` keys stay.
func (s *storedSession) apply(u update) {
	if u.stored == nil {
		s.applyOwn(u)
		return
	}
	keys := maps.Clone(u.stored)
	maps.Copy(keys, s.stored)
	for key := range u.ownTexts {
		keys[key] = storedValue{}
	}
	values := map[string]storedValue{}
	for key := range keys {
		now, stored := u.stored[key]
		before, known := s.stored[key]
		ownText, written := u.ownTexts[key]
		changed := stored != known || now != before
		switch {
		case stored && written && ownText == now.text:
			s.state[key] = u.own[key]
		case isTemp(key):
			if stored {
				s.state[key] = decodeValue(now.text)
			}
		case changed && !written && !slices.Contains(u.operated, key) && s.isUncommitted(key):
			now, stored = before, known
		case !stored:
			delete(s.state, key)
		case changed || written:
			s.state[key] = decodeValue(now.text)
		}
		if stored && !isTemp(key) {
			values[key] = now
		}
	}
	s.stored, s.sequence = values, u.sequence
}

// isUncommitted reports whether the caller has changed a key since the server's value was recorded.
func (s *storedSession) isUncommitted(key string) bool {
	before, known := s.stored[key]
	value, present := s.state[key]
	if !known || !present {
		return known != present
	}
	text, err := encodeValue(key, value, nil)
	return err != nil || !reflect.DeepEqual(decodeValue(text), decodeValue(before.text))
}

// applyOwn updates the state without the server's, which was too large for the response.
func (s *storedSession) applyOwn(u update) {
	for key, text := range u.ownTexts {
		s.state[key] = u.own[key]
		if !isTemp(key) {
			s.stored[key] = storedValue{text, unknownVersion}
		}
	}
	for _, key := range u.removed {
		delete(s.state, key)
		delete(s.stored, key)
	}
	s.sequence = u.sequence
}

// replaceWith makes the session equal to a fresh one of the same life. `temp:` keys stay; uncommitted values are lost.
func (s *storedSession) replaceWith(fresh *storedSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uid != "" && fresh.uid != "" && s.uid != fresh.uid {
		return replacedError(s.id)
	}
	s.uid = cmp.Or(s.uid, fresh.uid)
	maps.DeleteFunc(s.state, func(key string, _ any) bool { return !isTemp(key) })
	maps.Copy(s.state, fresh.state)
	s.stored, s.sequence = fresh.stored, fresh.sequence
	s.events, s.updated = fresh.events, fresh.updated
	return nil
}

// stateView is the ADK's view of the state.
type stateView struct{ session *storedSession }

// Get returns session.ErrStateKeyNotExist for a missing key.
func (v *stateView) Get(key string) (any, error) {
	v.session.mu.RLock()
	defer v.session.mu.RUnlock()
	value, ok := v.session.state[key]
	if !ok {
		return nil, session.ErrStateKeyNotExist
	}
	return value, nil
}

// Set changes the object alone; an event's delta changes the store.
func (v *stateView) Set(key string, value any) error {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	v.session.state[key] = value
	return nil
}

// All yields a copy.
func (v *stateView) All() iter.Seq2[string, any] {
	v.session.mu.RLock()
	defer v.session.mu.RUnlock()
	return maps.All(maps.Clone(v.session.state))
}

// eventList is a snapshot of the events.
type eventList []*session.Event

func (l eventList) All() iter.Seq[*session.Event] { return slices.Values(l) }
func (l eventList) Len() int                      { return len(l) }

// At returns nil out of range.
func (l eventList) At(i int) *session.Event {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}
