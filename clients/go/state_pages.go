package sessiond

import (
	"context"
	"maps"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// scopeState is the state of a scope, put together from pages.
type scopeState struct {
	uid      string
	texts    map[string]string
	versions map[string]int64
	damaged  []string
}

// readState reads the state that request selects, page by page. It changes request. A value that does not fit into an
// answer by itself is missing.
func (s *Service) readState(ctx context.Context, request *pb.GetStateRequest) (*scopeState, error) {
	request.JsonForm = asText
	result := &scopeState{texts: map[string]string{}, versions: map[string]int64{}}
	for {
		page, err := call(ctx, s.client, s.client.state.GetState, request)
		if err != nil {
			return nil, err
		}
		if request.PageToken != "" && page.Uid != result.uid {
			return nil, replacedError(request.Scope.GetSessionId())
		}
		result.uid = page.Uid
		texts, err := splitObject(page.GetStateJson())
		if err != nil {
			return nil, err
		}
		maps.Copy(result.texts, texts)
		maps.Copy(result.versions, page.Versions)
		result.damaged = append(result.damaged, page.DamagedKeys...)
		if page.StateOmitted {
			s.logger.Warn("sessiond: omitted a state value that does not fit into an answer", "scope", request.Scope)
		}
		if page.NextPageToken == "" {
			return result, nil
		}
		request.PageToken = page.NextPageToken
	}
}

// completeState adds the state that did not fit into the answer that stored came with.
func (s *Service) completeState(ctx context.Context, stored *pb.Session) error {
	key := stored.GetKey()
	found, err := s.readState(ctx, &pb.GetStateRequest{
		Scope:           &pb.Scope{AppName: key.GetAppName(), UserId: key.GetUserId(), SessionId: key.GetSessionId()},
		IncludeVersions: s.needsVersions(),
	})
	if err != nil {
		return err
	}
	if found.uid != stored.Uid {
		return replacedError(key.GetSessionId())
	}
	stored.StateForm = &pb.Session_StateJson{StateJson: joinObject(found.texts)}
	stored.Versions, stored.DamagedKeys, stored.StateOmitted = found.versions, found.damaged, false
	return nil
}

// warnDamaged names the keys of users and applications that are missing from a state.
func (s *Service) warnDamaged(sessionID string, keys []string) {
	if len(keys) > 0 {
		s.logger.Warn("sessiond: stored values are damaged and missing from the state", "session", sessionID, "keys", keys)
	}
}
