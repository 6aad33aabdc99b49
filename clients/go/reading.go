package sessiond

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/adk/v2/session"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// Reads of sessions, which the ADK's interface and the extensions share.

func (s *Service) get(ctx context.Context, request *session.GetRequest, asOf *int64) (*session.GetResponse, error) {
	if request == nil {
		return nil, errors.New("sessiond: the request is nil")
	}
	key, err := sessionKey(request.AppName, request.UserID, request.SessionID)
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, key, selectEvents(request), asOf)
	if err != nil {
		return nil, readError(err, key.SessionId)
	}
	return &session.GetResponse{Session: found}, nil
}

func readError(err error, id string) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("session %q not found: %w", id, err)
	}
	return fmt.Errorf("get session %q: %w", id, err)
}

// selectEvents returns the filters of a request; nil selects no event.
func selectEvents(request *session.GetRequest) *pb.EventSelection {
	selection := &pb.EventSelection{}
	if request.NumRecentEvents > 0 {
		selection.Recent = new(int32(min(request.NumRecentEvents, math.MaxInt32)))
	}
	if request.After.IsZero() || request.After.Year() < 1 {
		return selection
	}
	if request.After.UTC().Year() > 9999 {
		return nil
	}
	selection.AfterTime = timestamppb.New(request.After)
	return selection
}

// read reads a session, now or as of an event, with all pages of the selected events.
func (s *Service) read(
	ctx context.Context, key *pb.SessionKey, selection *pb.EventSelection, asOf *int64,
) (*storedSession, error) {
	response, err := call(ctx, s.client, s.client.sessions.GetSession, &pb.GetSessionRequest{
		Key: key, Events: selection, AsOfSequence: asOf, JsonForm: asText, IncludeVersions: s.needsVersions(),
	})
	if err != nil {
		return nil, err
	}
	events := response.Events
	if response.NextPageToken != "" {
		rest := &pb.ListEventsRequest{Key: key, Selection: selection, PageToken: response.NextPageToken}
		err := s.client.listEvents(ctx, rest, func(event *pb.Event) bool {
			events = append(events, event)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	if response.Session.GetStateOmitted() && asOf != nil {
		return nil, fmt.Errorf("the state as of event %d does not fit into an answer", *asOf)
	}
	return s.open(ctx, response.Session, events)
}

// open makes the session object of an answer. State that did not fit into the answer is read page by page.
func (s *Service) open(ctx context.Context, stored *pb.Session, events []*pb.Event) (*storedSession, error) {
	if stored.GetStateOmitted() {
		if err := s.completeState(ctx, stored); err != nil {
			return nil, err
		}
	}
	s.warnDamaged(stored.GetKey().GetSessionId(), stored.GetDamagedKeys())
	return newSession(stored, events, s.logger)
}

// possiblyCreated returns the session at key if an earlier attempt of the failed call may have created it, else nil.
func (s *Service) possiblyCreated(ctx context.Context, err error, key *pb.SessionKey) *pb.Session {
	failure := asError(err)
	if failure == nil || failure.Attempts == 1 || failure.Reason != "SESSION_EXISTS" {
		return nil
	}
	found, err := call(ctx, s.client, s.client.sessions.GetSession, &pb.GetSessionRequest{
		Key: key, JsonForm: asText, IncludeVersions: s.needsVersions(),
	})
	if err != nil {
		return nil
	}
	return found.Session
}

// sessionKey refuses empty parts: the server would look up a bare session id among the sessions of all users.
func sessionKey(appName, userID, sessionID string) (*pb.SessionKey, error) {
	if appName == "" || userID == "" || sessionID == "" {
		return nil, fmt.Errorf("sessiond: app_name, user_id and session_id are required, got %q, %q, %q",
			appName, userID, sessionID)
	}
	return &pb.SessionKey{AppName: appName, UserId: userID, SessionId: sessionID}, nil
}
