package sessiond_test

import (
	"slices"
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/grpc/metadata"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

func TestAffinity(t *testing.T) {
	server := startRecorder(t, "tcp", "127.0.0.1:0")
	service := dial(t, server.address)
	own := metadata.AppendToOutgoingContext(t.Context(), "sessiond-affinity", "mine")
	for _, request := range []session.ListRequest{{AppName: "a", UserID: "u"}, {AppName: "a"}} {
		if _, err := service.List(t.Context(), &request); err != nil {
			t.Fatal(err)
		}
		if _, err := service.List(own, &request); err != nil {
			t.Fatal(err)
		}
	}
	for _, scope := range []sessiond.Scope{{AppName: "a", UserID: "u", SessionID: "s"}, {AppName: "a"}} {
		for _, err := range service.Watch(t.Context(), scope, sessiond.WatchOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	ofUser, ofApp := "5bdd9aa445874270", "ffe9aaeaa2a2d504"
	if got := server.values("sessiond-affinity"); !slices.Equal(got, []string{ofUser, "mine", ofApp, "mine", ofUser, ofApp}) {
		t.Errorf("the server received %q", got)
	}
}
