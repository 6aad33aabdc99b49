package sessiond_test

//lint:file-ignore SA4006 The examples of the README leave most checks of errors out.

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/grpc"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

func firstExample(myAgent agent.Agent) (*runner.Runner, error) {
	return runner.New(runner.Config{
		AppName:        "my_app",
		Agent:          myAgent,
		SessionService: sessiond.MustNew("127.0.0.1:50051"), // before: session.InMemoryService()
	})
}

func optionsExample(interceptors grpc.DialOption) {
	sessions, err := sessiond.New("unix:/run/sessiond.sock",
		sessiond.WithTimeout(5*time.Second),
		sessiond.WithStaleness(sessiond.Conflict),
		sessiond.WithDialOptions(interceptors),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer sessions.Close()
}

func tlsExample() (*sessiond.Service, error) {
	return sessiond.New("https://sessions.example.com:50051",
		sessiond.WithTLSCA("ca.pem"),                             // by default the authorities of the system
		sessiond.WithClientCertificate("agent.pem", "agent.key"), // for a server with --tls-client-ca
		sessiond.WithTokenFile("token"),
	)
}

func errorsExample(err error) {
	if failure, ok := errors.AsType[*sessiond.Error](err); ok {
		log.Print(failure.Reason, failure.Metadata, failure.Retryable(), failure.MayBeApplied)
	}
}

func extensionsExample(ctx context.Context, sessions *sessiond.Service, s session.Session, event *session.Event) error {
	// Evaluated in the commit; no concurrent increment is lost.
	total, err := sessions.Increment(ctx, s, "app:tickets", 1)
	seen, err := sessions.AppendToList(ctx, s, "user:seen", []any{"a"}, 100)
	language, err := sessions.SetIfAbsent(ctx, s, "user:language", "en")
	profile, err := sessions.Merge(ctx, s, "profile", map[string]any{"city": "Oslo", "street": nil})
	err = sessions.Remove(ctx, s, "draft") // setting nil would store a null
	// In the event's commit; repeat it with the same event until it returns.
	err = sessions.AppendEventWith(ctx, s, event, sessiond.Increment{Key: "app:tickets", By: 1})

	// State without a session.
	alice := sessiond.Scope{AppName: "my_app", UserID: "alice"}
	state, err := sessions.UpdateState(ctx, alice, sessiond.Delta{Set: map[string]any{"user:plan": "pro"}})
	state, err = sessions.GetState(ctx, sessiond.Scope{AppName: "my_app"})

	// History and expiry.
	key := sessiond.Key{AppName: "my_app", UserID: "alice", SessionID: "s"}
	past, err := sessions.GetAsOf(ctx, &session.GetRequest{AppName: "my_app", UserID: "alice", SessionID: "s"}, 2)
	fork, err := sessions.Fork(ctx, sessiond.ForkRequest{Source: key, UpTo: new(int64(2))})
	rewound, err := sessions.Rewind(ctx, sessiond.KeyOf(s), 2) // of this session, not of one that was created anew under its id
	expiry, err := sessions.Expire(ctx, key, 30*24*time.Hour)
	for stored, err := range sessions.ListEvents(ctx, key, sessiond.EventsQuery{IncludeRewound: true}) {
		if err != nil {
			return err
		}
		fmt.Println(stored.Sequence, stored.Event.Author, stored.Rewound)
	}
	// In this order, rewound ones as well.
	found, missing, err := sessions.GetEvents(ctx, key, sessiond.BySequence(7), sessiond.ByID("turn-3"))
	err = sessions.Refresh(ctx, s) // also reads the events of others

	// A session, a user or an application.
	for item, err := range sessions.Watch(ctx, sessiond.Scope(key), sessiond.WatchOptions{}) {
		if err != nil {
			return err
		}
		switch item := item.(type) {
		case sessiond.Appended:
			fmt.Println("event", item.Sequence, item.Event.Author)
		case sessiond.Changed:
			fmt.Println("user or application state", item.Values, item.Removed)
		case sessiond.CaughtUp:
			return nil // everything that was stored before has come
		}
	}
	_ = []any{total, seen, language, profile, state, past, fork, rewound, expiry, found, missing}
	return err
}

// tlsExampleRuns runs the example in a folder with its files.
func tlsExampleRuns(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	authority := newAuthority(t)
	for name, content := range map[string][]byte{"ca.pem": authority.pem, "token": []byte("secret")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, key := authority.issue(t, "agent")
	for name, path := range map[string]string{"agent.pem": certificate, "agent.key": key} {
		if err := os.Rename(path, name); err != nil {
			t.Fatal(err)
		}
	}
	service, err := tlsExample()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadme holds the examples of the README against the functions above, which are compiled and run.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	migration, err := os.ReadFile("migration_test.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]bool{}
	for line := range strings.Lines(string(source) + string(migration)) {
		compiled[strings.TrimSpace(line)] = true
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 6 {
		t.Errorf("%d examples in the README, want 6", len(blocks))
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" && !compiled[line] {
				t.Errorf("not in example_test.go: %s", line)
			}
		}
	}

	service := inMemory(t)
	if _, err := firstExample(newAgent(t, "greeter")); err != nil {
		t.Error(err)
	}
	optionsExample(grpc.WithChainUnaryInterceptor())
	tlsExampleRuns(t)
	created, err := service.Create(t.Context(), &session.CreateRequest{AppName: "my_app", UserID: "alice", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := extensionsExample(t.Context(), service, created.Session, textEvent(t, "hi")); err != nil {
		t.Fatal(err)
	}
	errorsExample(service.Refresh(t.Context(), nil))
	state, err := service.GetState(t.Context(), sessiond.Scope{AppName: "my_app", UserID: "alice"})
	if err != nil || state["app:tickets"] != 2.0 || state["user:plan"] != "pro" {
		t.Errorf("state %v, %v", state, err)
	}
}
