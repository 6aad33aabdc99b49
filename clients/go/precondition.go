package sessiond

import (
	"maps"
	"slices"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// needsVersions reports whether appends check versions of keys.
func (s *Service) needsVersions() bool { return s.stale == Conflict }

// precondition returns what the server checks before an append, or nil. Of a replay only the uid is checked.
func (s *storedSession) precondition(stale Staleness, texts map[string]string, operations []Operation) *pb.Precondition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	condition := &pb.Precondition{Uid: s.uid}
	switch stale {
	case Refuse:
		condition.ExpectedSequence = new(s.sequence)
	case Conflict:
		condition.Keys = s.keyChecks(texts, operations)
	}
	if condition.Uid == "" && condition.ExpectedSequence == nil && len(condition.Keys) == 0 {
		return nil
	}
	return condition
}

// keyChecks demands that every key that is set or removed is as it was read. The other operations are evaluated in the
// commit and lose nothing.
func (s *storedSession) keyChecks(texts map[string]string, operations []Operation) []*pb.KeyCheck {
	written := map[string]bool{}
	for key := range texts {
		written[key] = !isTemp(key)
	}
	for _, operation := range operations {
		if removal, ok := operation.(Remove); ok {
			written[removal.Key] = !isTemp(removal.Key)
		}
	}
	var checks []*pb.KeyCheck
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if !written[key] {
			continue
		}
		check := &pb.KeyCheck{Key: key}
		value, present := s.stored[key]
		switch {
		case !present:
			check.Condition = &pb.KeyCheck_Exists{Exists: false}
		case value.version != unknownVersion:
			check.Condition = &pb.KeyCheck_Version{Version: value.version}
		default:
			// Forks, lists, responses without state and older servers come without versions.
			check.Condition = &pb.KeyCheck_ValueJson{ValueJson: value.text}
		}
		checks = append(checks, check)
	}
	return checks
}
