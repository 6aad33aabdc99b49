package sessiond

import (
	"context"
	"maps"
	"slices"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// precondition returns what the server checks before an append, or nil. It is not checked for a replay.
func (s *storedSession) precondition(stale Staleness, texts map[string]string, operations []Operation) *pb.Precondition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch stale {
	case Refuse:
		return &pb.Precondition{ExpectedSequence: new(s.sequence)}
	case Conflict:
		return s.keyChecks(texts, operations)
	}
	return nil
}

// keyChecks demands that every key that is set or removed is as it was read. The other operations are evaluated in the
// commit and lose nothing.
func (s *storedSession) keyChecks(texts map[string]string, operations []Operation) *pb.Precondition {
	written := map[string]bool{}
	for key := range texts {
		written[key] = !isTemp(key)
	}
	for _, operation := range operations {
		if removal, ok := operation.(Remove); ok {
			written[removal.Key] = !isTemp(removal.Key)
		}
	}
	condition := &pb.Precondition{}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if !written[key] {
			continue
		}
		check := &pb.KeyCheck{Key: key}
		text, present := s.texts[key]
		version, known := s.versions[key]
		switch {
		case !present:
			check.Condition = &pb.KeyCheck_Exists{Exists: false}
		case known:
			check.Condition = &pb.KeyCheck_Version{Version: version}
		default:
			// An append does not return versions. A value that it has returned is compared instead.
			check.Condition = &pb.KeyCheck_ValueJson{ValueJson: text}
		}
		condition.Keys = append(condition.Keys, check)
	}
	if len(condition.Keys) == 0 {
		return nil
	}
	return condition
}

// readVersions returns the state of a session with the version of each key. It must be called before the session itself
// is read: a change in between then has a value that differs, or a version that is too old, and is never overlooked.
func (s *Service) readVersions(ctx context.Context, key *pb.SessionKey) (*pb.GetStateResponse, error) {
	scope := &pb.Scope{AppName: key.AppName, UserId: key.UserId, SessionId: key.SessionId}
	request := &pb.GetStateRequest{Scope: scope, IncludeVersions: true, JsonForm: asText}
	return call(ctx, s.client, s.client.state.GetState, request)
}

// takeVersions keeps the versions of the values that the session was read with.
func (s *storedSession) takeVersions(read *pb.GetStateResponse) error {
	texts, err := splitObject(read.GetStateJson())
	if err != nil {
		return err
	}
	for key, version := range read.Versions {
		if text, ok := s.texts[key]; ok && text == texts[key] {
			s.versions[key] = version
		}
	}
	return nil
}
