package sessiond_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool/toolconfirmation"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// TestActionsOfOthers reads the actions of an event with a record that this version of the ADK cannot read. Only the
// member that cannot be read stays out, at any depth. The ADK for Go has no compactions.
func TestActionsOfOthers(t *testing.T) {
	want := session.EventActions{
		ArtifactDelta: map[string]int64{"refund.pdf": 2}, TransferToAgent: "billing", Escalate: true, SkipSummarization: true,
		RequestedToolConfirmations: map[string]toolconfirmation.ToolConfirmation{"call": {Hint: "sure?", Confirmed: true, Payload: map[string]any{"my_key": 1.0}}},
	}
	camel := `"artifactDelta":{"refund.pdf":2},"transferToAgent":"billing","escalate":true,"skipSummarization":true,
		"requestedToolConfirmations":{"call":{"hint":"sure?","confirmed":true,"payload":{"my_key":1}}}`
	snake := strings.NewReplacer(
		"artifactDelta", "artifact_delta", "transferToAgent", "transfer_to_agent", "skipSummarization", "skip_summarization",
		"requestedToolConfirmations", "requested_tool_confirmations",
	).Replace(camel)
	content := `{"role":"model","parts":[{"text":"Summary"}]}`
	for name, test := range map[string]struct{ actions, omitted string }{
		"a compaction of Rust": {snake + `,"compaction":{"start_timestamp":"2026-11-26T09:00:00Z",
			"end_timestamp":"2026-11-26T09:30:00Z","compacted_content":` + content + `}`, ""},
		"a compaction of Go": {camel + `,"compaction":{"startTimestamp":"2026-11-26T09:00:00Z",
			"endTimestamp":"2026-11-26T09:30:00Z","compactedContent":` + content + `,"excludedEvents":["e1"]}`, ""},
		"a compaction of Python": {camel + `,"compaction":{"startTimestamp":1795680000.5,"endTimestamp":1795681800.25,
			"compactedContent":` + content + `}`, ""},
		"a compaction of Java": {camel + `,"compaction":{"startTimestamp":1795680000500,"endTimestamp":1795681800250,
			"compactedContent":` + content + `}`, ""},
		"a record of a newer version": {camel + `,"future":{"a":[{"b":null}]}`, ""},
		"a member of another type":    {camel + `,"stateDelta":[]`, "actions.stateDelta"},
		"a confirmation of another form": {
			strings.Replace(camel, `"call":{`, `"other":{"hint":"x","confirmed":{"by":"ann"}},"call":{`, 1),
			"actions.requestedToolConfirmations.other.confirmed",
		},
		"a version that is text": {strings.Replace(camel, `"refund.pdf":2`, `"refund.pdf":2,"x":"new"`, 1), "actions.artifactDelta.x"},
		"several faults": {
			strings.Replace(camel, `"refund.pdf":2`, `"refund.pdf":2,"x":"new","y":[]`, 1) + `,"stateDelta":7`,
			"actions.artifactDelta.x, actions.artifactDelta.y, actions.stateDelta",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, "memory:")
			var log bytes.Buffer
			service := connect(t, server, sessiond.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
			create(t, service, "s", nil)
			raw(t, server, "s", `{"content":`+content+`,"actions":{`+test.actions+`}}`, `{}`)
			found := get(t, service, "s").Events().At(0)
			if other := found.Actions.RequestedToolConfirmations["other"]; other.Hint != "" {
				if other.Confirmed || other.Hint != "x" {
					t.Errorf("the confirmation of another form is %+v", other)
				}
				delete(found.Actions.RequestedToolConfirmations, "other")
			}
			if diff := cmp.Diff(want, found.Actions, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the actions (-want +got):\n%s", diff)
			}
			if found.Content == nil || found.Content.Parts[0].Text != "Summary" {
				t.Errorf("the content is %+v", found.Content)
			}
			var line struct{ Fields string }
			if log.Len() > 0 {
				if err := json.Unmarshal(log.Bytes(), &line); err != nil {
					t.Fatal(err)
				}
			}
			if line.Fields != test.omitted {
				t.Errorf("omitted %q, want %q", line.Fields, test.omitted)
			}
		})
	}
}
