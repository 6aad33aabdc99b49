package sessiond

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/adk/v2/session"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// bodyCase is a case of clients/cases/bodies.
type bodyCase struct {
	Name                  string
	Body, Canonical, Kept json.RawMessage
	Lost                  map[string][]string
	Except                []string
}

// eachCase runs a test for each case of a file, which must not be an exception for Go.
func eachCase(t *testing.T, file string, test func(*testing.T, bodyCase)) {
	t.Helper()
	text, err := os.ReadFile("../cases/bodies/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []bodyCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, one := range cases {
		if !slices.Contains(one.Except, "go") {
			t.Run(one.Name, func(t *testing.T) { test(t, one) })
		}
	}
}

// decoded returns the event of a body, and the paths that a warning names.
func decoded(t *testing.T, body json.RawMessage) (*session.Event, string) {
	t.Helper()
	var log bytes.Buffer
	event := decodeEvent(&pb.Event{
		EventId: "e", InvocationId: "i", Author: "a", Branch: "a.b", EventTime: &timestamppb.Timestamp{Seconds: 1_795_690_000},
		BodyForm: &pb.Event_BodyJson{BodyJson: string(body)},
	}, slog.New(slog.NewJSONHandler(&log, nil)))
	var line struct{ Fields string }
	if log.Len() > 0 {
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatalf("the log is not one line: %s", &log)
		}
	}
	return event, line.Fields
}

// missing returns the paths of wanted that found does not have, but for those of lost.
func missing(found, wanted any, lost []string, path string) []string {
	var paths []string
	switch wanted := wanted.(type) {
	case map[string]any:
		found, _ := found.(map[string]any)
		for name, value := range wanted {
			at := name
			if path != "" {
				at = path + "." + name
			}
			if !slices.Contains(lost, at) {
				paths = append(paths, missing(found[name], value, lost, at)...)
			}
		}
	case []any:
		found, _ := found.([]any)
		if len(found) != len(wanted) {
			return []string{path}
		}
		for at, value := range wanted {
			paths = append(paths, missing(found[at], value, lost, fmt.Sprint(path, ".", at))...)
		}
	default:
		if found != wanted {
			paths = []string{path}
		}
	}
	return paths
}

// TestCanonicalBodies reads and writes bodies in the canonical form.
func TestCanonicalBodies(t *testing.T) {
	eachCase(t, "canonical.json", func(t *testing.T, one bodyCase) {
		event, omitted := decoded(t, one.Canonical)
		encoded, err := encodeEvent(event, nil, false, slog.Default())
		if err != nil || omitted != "" {
			t.Fatalf("omitted %q, error %v", omitted, err)
		}
		var written, wanted any
		if err := json.Unmarshal([]byte(encoded.message.GetBodyJson()), &written); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(one.Canonical, &wanted); err != nil {
			t.Fatal(err)
		}
		if paths := missing(written, wanted, one.Lost["go"], ""); len(paths) > 0 {
			t.Errorf("missing %v in %v", paths, written)
		}
	})
}

// TestVariantsOfBodies reads each variant as the body in the canonical form.
func TestVariantsOfBodies(t *testing.T) {
	eachCase(t, "variants.json", func(t *testing.T, one bodyCase) {
		event, omitted := decoded(t, one.Body)
		wanted, _ := decoded(t, one.Canonical)
		if diff := cmp.Diff(wanted, event, cmpopts.EquateEmpty()); diff != "" || omitted != "" {
			t.Errorf("omitted %q, -want +got:\n%s", omitted, diff)
		}
	})
}

// TestUnreadableBodies omits what the ADK cannot read, and nothing beside it.
func TestUnreadableBodies(t *testing.T) {
	eachCase(t, "unreadable.json", func(t *testing.T, one bodyCase) {
		event, _ := decoded(t, one.Body)
		wanted, _ := decoded(t, one.Kept)
		if diff := cmp.Diff(wanted, event, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestOmittedFields names the omitted fields in one warning.
func TestOmittedFields(t *testing.T) {
	for body, want := range map[string]string{
		`{"future":{"a":[{"b":null}]},"actions":{"future":1}}`:                                "",
		`{"kind":"note","content":"just text"}`:                                               "content",
		`{"actions":{"artifactDelta":{"a":2,"x":"new","y":[]},"stateDelta":7},"errorCode":5}`: "actions.artifactDelta.x, actions.artifactDelta.y, actions.stateDelta, errorCode",
		`{"content":{"parts":[{"text":{"new":"form"}},{"inlineData":{"data":"***","mimeType":"m"}},7]}}`: "content.parts.0.text, " +
			"content.parts.1.inlineData.data, content.parts.2",
		`{"actions":{"requestedToolConfirmations":{"c":{"hint":"x","confirmed":{}}}}}`: "actions.requestedToolConfirmations.c.confirmed",
	} {
		if _, omitted := decoded(t, json.RawMessage(body)); omitted != want {
			t.Errorf("%s: omitted %q, want %q", body, omitted, want)
		}
	}
}
