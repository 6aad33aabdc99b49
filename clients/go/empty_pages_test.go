package sessiond_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/session"
	"google.golang.org/protobuf/proto"

	sessiond "github.com/sessiond/sessiond/clients/go"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// emptyFirst makes the server of a proxy one that reads many rows before it finds what is asked for: each page comes behind
// an empty one with a token.
type emptyFirst struct {
	mu sync.Mutex
	// next is the token of the empty page that answers the request, or "".
	next string
}

func (e *emptyFirst) edit(message proto.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch message := message.(type) {
	case *pb.GetSessionRequest:
		e.next = ""
		if message.Events != nil {
			e.ask(new(string))
		}
	case *pb.ListSessionsRequest:
		e.ask(&message.PageToken)
	case *pb.ListEventsRequest:
		e.ask(&message.PageToken)
	case *pb.GetStateRequest:
		e.ask(&message.PageToken)
	}
	if e.next == "" {
		return
	}
	switch message := message.(type) {
	case *pb.GetSessionResponse:
		message.Events, message.NextPageToken = nil, e.next
	case *pb.ListSessionsResponse:
		message.Sessions, message.NextPageToken = nil, e.next
	case *pb.ListEventsResponse:
		message.Events, message.NextPageToken = nil, e.next
	case *pb.GetStateResponse:
		message.StateForm, message.NextPageToken = &pb.GetStateResponse_StateJson{StateJson: "{}"}, e.next
	}
}

// ask turns the token of an empty page into that of the page behind it.
func (e *emptyFirst) ask(token *string) {
	const behind = "behind "
	e.next = behind + *token
	if page, ok := strings.CutPrefix(*token, behind); ok {
		*token, e.next = page, ""
	}
}

// TestEmptyPages reads on behind pages that have only a token, wherever a call has pages.
func TestEmptyPages(t *testing.T) {
	server := startServer(t, "memory:")
	direct := connect(t, server)
	for _, id := range []string{"s1", "s2"} {
		s := create(t, direct, id, map[string]any{"a": id})
		for n := range 3 {
			appendTo(t, direct, s, deltaEvent(t, map[string]any{"n": float64(n), "user:n": float64(n)}))
		}
	}
	service := dial(t, startProxy(t, server.Address, &proxy{edit: (&emptyFirst{}).edit}).address)
	stored := get(t, direct, "s1")
	all := ids(stored)
	same := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for what, request := range map[string]session.GetRequest{
		"Get":                      {},
		"Get with NumRecentEvents": {NumRecentEvents: 3},
		"Get with After":           {After: time.Unix(1, 0)},
	} {
		request.AppName, request.UserID, request.SessionID = app, user, "s1"
		got, err := service.Get(t.Context(), &request)
		if err != nil {
			t.Fatal(err)
		}
		same(what, all, ids(got.Session))
		same(what, stateOf(stored), stateOf(got.Session))
	}

	got := create(t, service, "s3", nil)
	appendTo(t, connect(t, server), get(t, direct, "s3"), textEvent(t, "theirs"))
	if err := service.Refresh(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	same("Refresh", ids(get(t, direct, "s3")), ids(got))

	key := sessiond.KeyOf(stored)
	var listed []string
	for event, err := range service.ListEvents(t.Context(), key, sessiond.EventsQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, event.Event.ID)
	}
	same("ListEvents", all, listed)

	state, err := service.GetState(t.Context(), sessiond.Scope(key))
	if err != nil {
		t.Fatal(err)
	}
	same("GetState", stateOf(stored), state)

	copied := inMemory(t)
	if err := copySessions(t.Context(), service, copied, app); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"s1", "s2", "s3"} {
		same("the copy of List and Get", ids(get(t, direct, id)), ids(get(t, copied, id)))
	}
}
