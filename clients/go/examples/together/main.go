// Program together works on a session that agents of other languages use at the same time.
//
//	together ADDRESS APP USER SESSION turn TEXT     runs one turn of an agent
//	together ADDRESS APP USER SESSION increment N   increments user:turns N times
//	together ADDRESS APP USER SESSION put KEY JSON  sets a key to a JSON text
//	together ADDRESS APP USER SESSION dump          prints events and state as JSON
//	together ADDRESS APP USER SESSION bodies        prints what this ADK reads in the bodies of the events
//	together ADDRESS APP USER SESSION compactions   prints what this ADK reads beside compactions, which it does not have
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/scripted"
)

const language = "go"

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "together:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 5 {
		return fmt.Errorf("usage: together ADDRESS APP USER SESSION turn|increment|put|dump|bodies|compactions [ARGUMENTS]")
	}
	sessions, err := sessiond.New(args[0])
	if err != nil {
		return err
	}
	defer sessions.Close()
	key := sessiond.Key{AppName: args[1], UserID: args[2], SessionID: args[3]}
	command, args := args[4], args[5:]
	switch {
	case command == "turn" && len(args) == 1:
		return turn(ctx, sessions, key, args[0])
	case command == "increment" && len(args) == 1:
		return increment(ctx, sessions, key, args[0])
	case command == "put" && len(args) == 2:
		return put(ctx, sessions, key, args[0], args[1])
	case command == "dump" && len(args) == 0:
		return dump(ctx, sessions, key)
	case command == "bodies" && len(args) == 0:
		return bodies(ctx, sessions, key)
	case command == "compactions" && len(args) == 0:
		return compactions(ctx, sessions, key)
	}
	return fmt.Errorf("unknown command %q with %d arguments", command, len(args))
}

// turn runs an agent whose model answers what it has heard, and which notes the text in the session's state.
func turn(ctx context.Context, sessions *sessiond.Service, key sessiond.Key, text string) error {
	assistant, err := llmagent.New(llmagent.Config{
		Name: language + "_agent",
		Model: scripted.Model(func(request *model.LLMRequest) *genai.Content {
			return scripted.Says(language + " heard " + scripted.LastText(request))
		}),
		BeforeAgentCallbacks: []agent.BeforeAgentCallback{
			func(ctx agent.Context) (*genai.Content, error) {
				return nil, ctx.State().Set(language+":turn", text)
			},
		},
	})
	if err != nil {
		return err
	}
	r, err := runner.New(runner.Config{AppName: key.AppName, Agent: assistant, SessionService: sessions})
	if err != nil {
		return err
	}
	message := genai.NewContentFromText(text, genai.RoleUser)
	for _, err := range r.Run(ctx, key.UserID, key.SessionID, message, agent.RunConfig{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func increment(ctx context.Context, sessions *sessiond.Service, key sessiond.Key, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	found, err := get(ctx, sessions, key)
	if err != nil {
		return err
	}
	for range n {
		if _, err := sessions.Increment(ctx, found, "user:turns", 1); err != nil {
			return err
		}
	}
	return nil
}

// put sets the very text, whatever Go can hold.
func put(ctx context.Context, sessions *sessiond.Service, key sessiond.Key, name, value string) error {
	delta := sessiond.Delta{Set: map[string]any{name: json.RawMessage(value)}}
	_, err := sessions.UpdateState(ctx, sessiond.Scope(key), delta)
	return err
}

func dump(ctx context.Context, sessions *sessiond.Service, key sessiond.Key) error {
	found, err := get(ctx, sessions, key)
	if err != nil {
		return err
	}
	type line struct {
		ID     string `json:"id"`
		Author string `json:"author"`
		Text   string `json:"text"`
	}
	events := []line{}
	for event := range found.Events().All() {
		events = append(events, line{event.ID, event.Author, textOf(event)})
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"events": events, "state": maps.Collect(found.State().All())})
}

// bodies prints what ADK's own types read in the bodies.
func bodies(ctx context.Context, sessions *sessiond.Service, key sessiond.Key) error {
	found, err := get(ctx, sessions, key)
	if err != nil {
		return err
	}
	read := []map[string]any{}
	for event := range found.Events().All() {
		calls, responses, tokens := []map[string]any{}, []map[string]any{}, int32(0)
		for _, part := range event.Content.Parts {
			if call := part.FunctionCall; call != nil {
				calls = append(calls, map[string]any{"id": call.ID, "name": call.Name, "args": call.Args})
			}
			if result := part.FunctionResponse; result != nil {
				responses = append(responses, map[string]any{"id": result.ID, "name": result.Name, "response": result.Response})
			}
		}
		if event.UsageMetadata != nil {
			tokens = event.UsageMetadata.TotalTokenCount
		}
		artifacts := event.Actions.ArtifactDelta
		if artifacts == nil {
			artifacts = map[string]int64{}
		}
		read = append(read, map[string]any{
			"author": event.Author, "role": event.Content.Role, "text": textOf(event), "calls": calls, "responses": responses,
			"tokens": tokens, "artifacts": artifacts, "final": event.IsFinalResponse(),
		})
	}
	return json.NewEncoder(os.Stdout).Encode(read)
}

// compactions prints the actions beside compactions. ADK for Go has no compactions.
func compactions(ctx context.Context, sessions *sessiond.Service, key sessiond.Key) error {
	found, err := get(ctx, sessions, key)
	if err != nil {
		return err
	}
	read := []map[string]any{}
	for event := range found.Events().All() {
		read = append(read, map[string]any{
			"start": nil, "end": nil, "text": nil,
			"transfer": event.Actions.TransferToAgent, "artifacts": event.Actions.ArtifactDelta,
		})
	}
	return json.NewEncoder(os.Stdout).Encode(read)
}

func textOf(event *session.Event) string {
	var text strings.Builder
	if event.Content != nil {
		for _, part := range event.Content.Parts {
			text.WriteString(part.Text)
		}
	}
	return text.String()
}

func get(ctx context.Context, sessions *sessiond.Service, key sessiond.Key) (session.Session, error) {
	found, err := sessions.Get(ctx, &session.GetRequest{AppName: key.AppName, UserID: key.UserID, SessionID: key.SessionID})
	if err != nil {
		return nil, err
	}
	return found.Session, nil
}
