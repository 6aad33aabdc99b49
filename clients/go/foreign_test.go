package sessiond_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
	"google.golang.org/protobuf/types/known/timestamppb"

	sessiond "github.com/sessiond/sessiond/clients/go"
	"github.com/sessiond/sessiond/clients/go/internal/testserver"
	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

var foreignTime = time.Date(2026, 11, 21, 12, 0, 51, 250_924_110, time.UTC)

// raw appends an event as a program without this package does.
func raw(t *testing.T, server *testserver.Server, id, body, set string) {
	t.Helper()
	_, err := pb.NewEventServiceClient(dialRaw(t, server.Address)).AppendEvent(t.Context(), &pb.AppendEventRequest{
		Key: &pb.SessionKey{AppName: app, UserId: user, SessionId: id},
		Event: &pb.Event{
			InvocationId: "inv", Author: "theirs", Branch: "a.b", EventTime: timestamppb.New(foreignTime),
			StateDelta: &pb.StateDelta{SetForm: &pb.StateDelta_SetJson{SetJson: set}},
			BodyForm:   &pb.Event_BodyJson{BodyJson: body},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func rawState(t *testing.T, server *testserver.Server, id string) map[string]json.RawMessage {
	t.Helper()
	response, err := pb.NewStateServiceClient(dialRaw(t, server.Address)).GetState(t.Context(), &pb.GetStateRequest{
		Scope: &pb.Scope{AppName: app, UserId: user, SessionId: id}, JsonForm: pb.JsonForm_JSON_FORM_TEXT,
	})
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(response.GetStateJson()), &state); err != nil {
		t.Fatal(err)
	}
	return state
}

// TestForeignEvents reads what other languages and programs write.
func TestForeignEvents(t *testing.T) {
	binary := []byte{0xFB, 0xEF, 0xFF, 0x00}
	text := func(text string) *genai.Content { return genai.NewContentFromText(text, "model") }
	for name, test := range map[string]struct {
		body string
		want session.Event
		// omitted are the paths in the log.
		omitted string
	}{
		"Python": {
			body: `{"content":{"parts":[{"text":"hi"},{"inlineData":{"data":"--__AA==","mimeType":"image/png"}},
				{"thoughtSignature":"--__AA==","functionCall":{"args":{"data":"a-b_","my_arg":1},"name":"f"}}],"role":"model"},
				"customMetadata":{"a_b":"c-_d"},"invocationId":"e","author":"x","actions":{"artifactDelta":{},"requestedAuthConfigs":{},
				"requestedToolConfirmations":{}},"id":"i","timestamp":1795190851.2509241,"nodeInfo":{"path":""}}`,
			want: session.Event{
				LLMResponse: model.LLMResponse{
					Content: &genai.Content{Role: "model", Parts: []*genai.Part{
						{Text: "hi"},
						{InlineData: &genai.Blob{Data: binary, MIMEType: "image/png"}},
						{ThoughtSignature: binary, FunctionCall: &genai.FunctionCall{Name: "f", Args: map[string]any{"data": "a-b_", "my_arg": 1.0}}},
					}},
					CustomMetadata: map[string]any{"a_b": "c-_d"},
				},
				Actions: session.EventActions{ArtifactDelta: map[string]int64{}},
			},
		},
		"Java": {
			body: `{"id":"i","invocationId":"e","author":"x","content":{"parts":[{"text":"hi"}],"role":"model"},
				"actions":{"stateDelta":{},"artifactDelta":{"f":2},"deletedArtifactIds":[],"requestedAuthConfigs":{},"requestedToolConfirmations":{}},
				"customMetadata":[{"key":"s","stringValue":"v"},{"key":"n","numericValue":1.5},{"key":"l","stringListValue":{"values":["a"]}}],
				"finishReason":"STOP","timestamp":1795190851250}`,
			want: session.Event{
				LLMResponse: model.LLMResponse{
					Content: text("hi"), FinishReason: genai.FinishReasonStop,
					CustomMetadata: map[string]any{"s": "v", "n": 1.5, "l": []any{"a"}},
				},
				Actions: session.EventActions{StateDelta: map[string]any{}, ArtifactDelta: map[string]int64{"f": 2}},
			},
		},
		"TypeScript": {
			body: `{"id":"i","invocationId":"e","author":"x","actions":{"stateDelta":{},"artifactDelta":{},"requestedAuthConfigs":{},
				"requestedToolConfirmations":{}},"longRunningToolIds":["t"],"content":{"parts":[{"text":"hi"}],"role":"model"},
				"timestamp":1795190851250.92,"isCompacted":false,"interactionId":"z"}`,
			want: session.Event{
				LLMResponse:        model.LLMResponse{Content: text("hi")},
				Actions:            session.EventActions{StateDelta: map[string]any{}, ArtifactDelta: map[string]int64{}},
				LongRunningToolIDs: []string{"t"},
			},
		},
		"Rust": {
			body: `{"id":"i","timestamp":"2026-11-21T12:00:51.250924110Z","invocation_id":"e","branch":"","author":"x",
				"content":{"role":"model","parts":[{"thinking":"hm","signature":"+++/AA=="},{"text":"hi"},
				{"name":"f","args":{"my_arg":1},"id":"c"},{"functionResponse":{"name":"f","response":{"my_key":2}},"id":"c"},
				{"mime_type":"image/png","data":[251,239,255,0]},{"mime_type":"a/b","file_uri":"gs://x"}]},
				"usage_metadata":{"prompt_token_count":7},"finish_reason":"MaxTokens","partial":false,"turn_complete":true,"interrupted":false,
				"error_code":null,"error_message":null,"actions":{"state_delta":{},"artifact_delta":{"my_file":1},"skip_summarization":true,
				"transfer_to_agent":null,"escalate":false},"long_running_tool_ids":["t"]}`,
			want: session.Event{
				LLMResponse: model.LLMResponse{
					Content: &genai.Content{Role: "model", Parts: []*genai.Part{
						{Text: "hm", Thought: true, ThoughtSignature: []byte{0xFB, 0xEF, 0xBF, 0x00}},
						{Text: "hi"},
						{FunctionCall: &genai.FunctionCall{ID: "c", Name: "f", Args: map[string]any{"my_arg": 1.0}}},
						{FunctionResponse: &genai.FunctionResponse{ID: "c", Name: "f", Response: map[string]any{"my_key": 2.0}}},
						{InlineData: &genai.Blob{Data: binary, MIMEType: "image/png"}},
						{FileData: &genai.FileData{FileURI: "gs://x", MIMEType: "a/b"}},
					}},
					UsageMetadata: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 7},
					FinishReason:  genai.FinishReasonMaxTokens, TurnComplete: true,
				},
				Actions: session.EventActions{
					StateDelta: map[string]any{}, ArtifactDelta: map[string]int64{"my_file": 1}, SkipSummarization: true,
				},
				LongRunningToolIDs: []string{"t"},
			},
		},
		"Rust, a result that is no object": {
			body: `{"invocation_id":"e","content":{"role":"function","parts":[
				{"functionResponse":{"name":"f","response":"sunny"},"id":"c"},{"functionResponse":{"name":"f","response":[1,2]}},
				{"functionResponse":{"name":"f","response":null}},{"functionResponse":{"name":"f"},"id":"d"}]}}`,
			want: session.Event{LLMResponse: model.LLMResponse{Content: &genai.Content{Role: "function", Parts: []*genai.Part{
				{FunctionResponse: &genai.FunctionResponse{ID: "c", Name: "f", Response: map[string]any{"result": "sunny"}}},
				{FunctionResponse: &genai.FunctionResponse{Name: "f", Response: map[string]any{"result": []any{1.0, 2.0}}}},
				{FunctionResponse: &genai.FunctionResponse{Name: "f", Response: map[string]any{"result": nil}}},
				{FunctionResponse: &genai.FunctionResponse{ID: "d", Name: "f"}},
			}}}},
		},
		"Rust, a call without arguments": {
			body: `{"invocation_id":"e","content":{"role":"model","parts":[{"name":"f","args":null,"id":"c"}]}}`,
			want: session.Event{LLMResponse: model.LLMResponse{Content: &genai.Content{Role: "model", Parts: []*genai.Part{
				{FunctionCall: &genai.FunctionCall{ID: "c", Name: "f", Args: map[string]any{}}},
			}}}},
		},
		"an older Python": {
			body: `{"invocation_id":"e","author":"x","content":{"parts":[{"function_call":{"args":{"agent_name":"y"},"name":"transfer"}},
				{"function_response":{"name":"transfer","response":{"target_agent":"y"}}}],"role":"model"},
				"options":{"skip_summarization":true},"is_greeting":false,"id":"i","timestamp":1734292272.522898}`,
			want: session.Event{LLMResponse: model.LLMResponse{Content: &genai.Content{Role: "model", Parts: []*genai.Part{
				{FunctionCall: &genai.FunctionCall{Name: "transfer", Args: map[string]any{"agent_name": "y"}}},
				{FunctionResponse: &genai.FunctionResponse{Name: "transfer", Response: map[string]any{"target_agent": "y"}}},
			}}}},
		},
		"fields that cannot be read": {
			body: `{"content":{"parts":[{"text":"kept"},{"text":{"new":"form"}},{"inlineData":{"data":"***","mimeType":"m"}},7],"role":"model"},
				"turnComplete":"yes","usageMetadata":{"promptTokenCount":"many","totalTokenCount":3},"errorCode":5,"actions":[],"future":{"a":1}}`,
			want: session.Event{LLMResponse: model.LLMResponse{
				Content: &genai.Content{Role: "model", Parts: []*genai.Part{
					{Text: "kept"}, {}, {InlineData: &genai.Blob{MIMEType: "m"}},
				}},
				UsageMetadata: &genai.GenerateContentResponseUsageMetadata{TotalTokenCount: 3},
			}},
			omitted: "actions, content.parts.1.text, content.parts.2.inlineData.data, content.parts.3, errorCode, turnComplete, usageMetadata.promptTokenCount",
		},
		"an object of another program": {body: `{"kind":"note","content":"just text"}`, omitted: "content"},
		"nothing":                      {body: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, "memory:")
			var log bytes.Buffer
			service := connect(t, server, sessiond.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
			create(t, service, "s", nil)
			raw(t, server, "s", test.body, `{}`)
			found := get(t, service, "s").Events().At(0)
			test.want.ID, test.want.Author, test.want.InvocationID, test.want.Branch = found.ID, "theirs", "inv", "a.b"
			test.want.Timestamp = foreignTime
			if diff := cmp.Diff(&test.want, found, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			var line struct{ Level, Event, Fields string }
			if test.omitted != "" {
				if err := json.Unmarshal(log.Bytes(), &line); err != nil {
					t.Fatalf("the log is not one line: %s", &log)
				}
			} else if log.Len() > 0 {
				t.Errorf("the log is %s", &log)
			}
			if line.Fields != test.omitted || (line.Event != found.ID && line.Event != "") {
				t.Errorf("omitted %q, want %q", line.Fields, test.omitted)
			}
		})
	}
}
