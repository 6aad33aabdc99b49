// Program counter runs an agent with a tool twice: `counter [-sessions ADDRESS]`. What it remembers is in sessiond. Its model is
// scripted, so it needs no network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/scripted"
)

func main() {
	address := flag.String("sessions", "127.0.0.1:50051", "address of sessiond")
	flag.Parse()
	if err := run(context.Background(), *address); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	assistant, err := newAgent()
	if err != nil {
		return err
	}
	sessions, err := sessiond.New(address)
	if err != nil {
		return err
	}
	defer sessions.Close()
	// Before: SessionService: session.InMemoryService().
	r, err := runner.New(runner.Config{AppName: "counter", Agent: assistant, SessionService: sessions})
	if err != nil {
		return err
	}
	_, err = sessions.Create(ctx, &session.CreateRequest{AppName: "counter", UserID: "alice", SessionID: "demo"})
	if err != nil && !errors.Is(err, sessiond.ErrAlreadyExists) {
		return err
	}
	for _, text := range []string{"Hello", "And again"} {
		message := genai.NewContentFromText(text, genai.RoleUser)
		for event, err := range r.Run(ctx, "alice", "demo", message, agent.RunConfig{}) {
			if err != nil {
				return err
			}
			if event.IsFinalResponse() {
				fmt.Println(event.Content.Parts[0].Text)
			}
		}
	}
	state, err := sessions.GetState(ctx, sessiond.Scope{AppName: "counter", UserID: "alice", SessionID: "demo"})
	if err != nil {
		return err
	}
	fmt.Printf("visits: %v, last answer: %v\n", state["user:visits"], state["answer"])
	return nil
}

// newAgent returns an agent that counts visits with a tool, and keeps its last answer in the state.
func newAgent() (agent.Agent, error) {
	type empty struct{}
	type visits struct {
		Visits float64 `json:"visits"`
	}
	count, err := functiontool.New(functiontool.Config{Name: "count_visit", Description: "Counts a visit."},
		func(ctx agent.Context, _ empty) (visits, error) {
			before, err := ctx.State().Get("user:visits")
			if err != nil && !errors.Is(err, session.ErrStateKeyNotExist) {
				return visits{}, err
			}
			// Numbers of the state are float64, as in the ADK's own persistent services.
			number, _ := before.(float64)
			return visits{number + 1}, ctx.State().Set("user:visits", number+1)
		})
	if err != nil {
		return nil, err
	}
	return llmagent.New(llmagent.Config{
		Name:      "greeter",
		OutputKey: "answer",
		Tools:     []tool.Tool{count},
		Model: scripted.Model(func(request *model.LLMRequest) *genai.Content {
			last := request.Contents[len(request.Contents)-1].Parts[0]
			if last.FunctionResponse == nil {
				return scripted.Calls("count_visit", nil)
			}
			return scripted.Says(fmt.Sprintf("Welcome, this is visit %v.", last.FunctionResponse.Response["visits"]))
		}),
	})
}
