package sessiond_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/scripted"
)

// newAgent returns an agent with a tool and callbacks that write state of every scope.
func newAgent(t *testing.T, name string) agent.Agent {
	t.Helper()
	type arguments struct {
		City string `json:"city"`
	}
	remember, err := functiontool.New(functiontool.Config{Name: "remember", Description: "Remembers a city."},
		func(ctx agent.Context, args arguments) (map[string]any, error) {
			for key, value := range map[string]any{
				"app:cities": args.City, "user:city": args.City, "temp:city": args.City, name + "_city": args.City, "cleared": nil,
			} {
				if err := ctx.State().Set(key, value); err != nil {
					return nil, err
				}
			}
			return map[string]any{"stored": true}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	result, err := llmagent.New(llmagent.Config{
		Name: name, OutputKey: name + "_answer", Instruction: "Greet {user:name?} from {user:city?}.", Tools: []tool.Tool{remember},
		BeforeAgentCallbacks: []agent.BeforeAgentCallback{func(ctx agent.Context) (*genai.Content, error) {
			turns, err := ctx.State().Get(name + "_turns")
			if err != nil && !errors.Is(err, session.ErrStateKeyNotExist) {
				return nil, err
			}
			before, _ := turns.(float64)
			return nil, ctx.State().Set(name+"_turns", before+1)
		}},
		AfterModelCallbacks: []llmagent.AfterModelCallback{
			func(ctx agent.Context, _ *model.LLMResponse, _ error) (*model.LLMResponse, error) {
				return nil, ctx.State().Set("temp:"+name+"_seen", true)
			},
		},
		Model: scripted.Model(func(request *model.LLMRequest) *genai.Content {
			last := request.Contents[len(request.Contents)-1].Parts[0]
			if last.FunctionResponse == nil {
				return scripted.Calls("remember", map[string]any{"city": name})
			}
			return scripted.Says(fmt.Sprint(name, " has ", len(request.Contents), " contents and the instruction ",
				request.Config.SystemInstruction.Parts[0].Text))
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// converse runs a turn for each text, and returns the events of the runs.
func converse(t *testing.T, service session.Service, root agent.Agent, texts ...string) []*session.Event {
	t.Helper()
	r, err := runner.New(runner.Config{AppName: app, Agent: root, SessionService: service})
	if err != nil {
		t.Fatal(err)
	}
	var events []*session.Event
	for _, text := range texts {
		message := genai.NewContentFromText(text, genai.RoleUser)
		options := runner.WithStateDelta(map[string]any{"user:name": "Ada", "temp:run": 1.0})
		for event, err := range r.Run(t.Context(), user, "s", message, agent.RunConfig{}, options) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, event)
		}
	}
	return events
}

// comparable returns what two services must agree about. Ids and times are new in each run, and `temp:` keys stay in the
// events of the memory service.
func comparable(s session.Session) []any {
	var events []any
	calls := map[string]string{}
	for event := range s.Events().All() {
		copied := *event
		copied.ID, copied.InvocationID, copied.Timestamp = "", "", time.Time{}
		copied.Actions.StateDelta = map[string]any{}
		for key, value := range event.Actions.StateDelta {
			if key != "temp:city" && key != "temp:run" && key != "temp:one_seen" && key != "temp:two_seen" {
				copied.Actions.StateDelta[key] = value
			}
		}
		if copied.Content != nil {
			content := *copied.Content
			content.Parts = nil
			for _, part := range copied.Content.Parts {
				part := *part
				if part.FunctionCall != nil {
					call := *part.FunctionCall
					calls[call.ID] = fmt.Sprint("call ", len(calls))
					call.ID = calls[call.ID]
					part.FunctionCall = &call
				}
				if part.FunctionResponse != nil {
					response := *part.FunctionResponse
					response.ID = calls[response.ID]
					part.FunctionResponse = &response
				}
				content.Parts = append(content.Parts, &part)
			}
			copied.Content = &content
		}
		events = append(events, &copied)
	}
	return []any{stateOf(s), events}
}

// TestRunner runs the same conversation on this service and on the ADK's memory service.
func TestRunner(t *testing.T) {
	build := func() agent.Agent {
		root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{
			Name: "root", SubAgents: []agent.Agent{newAgent(t, "one"), newAgent(t, "two")},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return root
	}
	memory := session.InMemoryService()
	create(t, memory, "s", map[string]any{"start": "x"})
	converse(t, memory, build(), "Oslo", "Rome")
	want := comparable(get(t, memory, "s"))
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			server := startServer(t, store.uri)
			service := connect(t, server)
			create(t, service, "s", map[string]any{"start": "x"})
			converse(t, service, build(), "Oslo")
			if store.name == "sqlite" {
				// Another process goes on.
				server.Kill()
				server.StartAgain()
			}
			converse(t, connect(t, server), build(), "Rome")
			if diff := cmp.Diff(want, comparable(get(t, service, "s"))); diff != "" {
				t.Errorf("-memory +sessiond:\n%s", diff)
			}
			other := create(t, service, "other", nil)
			if diff := cmp.Diff(map[string]any{"app:cities": "two", "user:city": "two", "user:name": "Ada"}, stateOf(other)); diff != "" {
				t.Errorf("the state of another session (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParallelAgents runs branches that append to one session object at the same time.
func TestParallelAgents(t *testing.T) {
	service := inMemory(t)
	create(t, service, "s", nil)
	var branches []agent.Agent
	for n := range 6 {
		branches = append(branches, newAgent(t, fmt.Sprint("branch", n)))
	}
	root, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "root", SubAgents: branches}})
	if err != nil {
		t.Fatal(err)
	}
	events := converse(t, service, root, "Oslo", "Rome")
	found := get(t, service, "s")
	// Two messages of the user beside what the runs have yielded.
	if found.Events().Len() != len(events)+2 {
		t.Errorf("%d stored events, the runs have yielded %d", found.Events().Len(), len(events))
	}
	for n := range branches {
		if got := stateOf(found)[fmt.Sprintf("branch%d_turns", n)]; got != 2.0 {
			t.Errorf("branch %d has counted %v turns, want 2", n, got)
		}
	}
}

// TestGuide follows the examples of the ADK's guide to state: an output key, an event with a delta, state of a callback.
func TestGuide(t *testing.T) {
	service := connect(t, startServer(t, "sqlite:test.db"))
	s := create(t, service, "s", map[string]any{"user:login_count": 0, "task_status": "idle"})
	event := session.NewEvent(t.Context(), "inv_login_update")
	event.Author = "system"
	now := float64(time.Now().Unix())
	event.Actions.StateDelta = map[string]any{
		"task_status": "active", "user:login_count": 1.0, "user:last_login_ts": now, "temp:validation_needed": true,
	}
	appendTo(t, service, s, event)
	want := map[string]any{"task_status": "active", "user:login_count": 1.0, "user:last_login_ts": now}
	if diff := cmp.Diff(want, stateOf(get(t, service, "s"))); diff != "" {
		t.Errorf("the stored state (-want +got):\n%s", diff)
	}
	greeter, err := llmagent.New(llmagent.Config{
		Name: "greeter", OutputKey: "last_greeting", Instruction: "Greet.",
		Model: scripted.Model(func(*model.LLMRequest) *genai.Content { return scripted.Says("Hello there!") }),
		AfterAgentCallbacks: []agent.AfterAgentCallback{func(ctx agent.Context) (*genai.Content, error) {
			count, err := ctx.State().Get("user:login_count")
			if err != nil {
				return nil, err
			}
			return nil, ctx.State().Set("user:login_count", count.(float64)+1)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := runner.New(runner.Config{AppName: app, Agent: greeter, SessionService: service})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Run(t.Context(), user, "s", genai.NewContentFromText("Hi", genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want["last_greeting"], want["user:login_count"] = "Hello there!", 2.0
	if diff := cmp.Diff(want, stateOf(get(t, service, "s"))); diff != "" {
		t.Errorf("the state after the run (-want +got):\n%s", diff)
	}
}

// TestRunnerWithoutSession relies on an error of Get for a missing session, and on a taken id staying an error.
func TestRunnerWithoutSession(t *testing.T) {
	service := inMemory(t)
	r, err := runner.New(runner.Config{AppName: app, Agent: newAgent(t, "one"), SessionService: service})
	if err != nil {
		t.Fatal(err)
	}
	message := genai.NewContentFromText("Hi", genai.RoleUser)
	for _, err := range r.Run(t.Context(), user, "missing", message, agent.RunConfig{}) {
		if !errors.Is(err, sessiond.ErrNotFound) {
			t.Errorf("a run without a session = %v", err)
		}
	}
	r, err = runner.New(runner.Config{AppName: app, Agent: newAgent(t, "one"), SessionService: service, AutoCreateSession: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Run(t.Context(), user, "new", message, agent.RunConfig{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if get(t, service, "new").Events().Len() < 4 {
		t.Error("the new session lacks events")
	}
}
