package sessiond

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/adk/v2/session"
)

// The canonical form of an event's body (docs/bodies.md), and its variants: ADK files of other languages, older ADK files,
// and clients without an adapter. What this version of the ADK still cannot read is left out.

// maxOmitted bounds what one event adds to the log.
const maxOmitted = 20

// records are the members whose own members have canonical names. What others hold may be data of the application.
var records = set(
	"actions", "citationMetadata", "compactedContent", "compaction", "content", "fileData", "functionCall",
	"functionResponse", "groundingMetadata", "inlineData", "nodeInfo", "parts", "usageMetadata",
)

// renamed are names of one ADK, in camelCase, for members that the others have too; and reasons to finish of the ADK for Rust.
var renamed = map[string]string{
	"Stop": "STOP", "MaxTokens": "MAX_TOKENS", "Safety": "SAFETY", "Recitation": "RECITATION", "Other": "OTHER",
	"cacheReadInputTokenCount": "cachedContentTokenCount",
	"citationSources":          "citations",
	"routes":                   "route",
	"thinkingTokenCount":       "thoughtsTokenCount",
}

// bareParts are parts that the ADK for Rust writes without a member around them: the member, what tells the part, and its
// members.
var bareParts = []struct {
	kind              string
	required, members []string
}{
	{"functionCall", []string{"name", "args"}, []string{"id", "name", "args"}},
	{"inlineData", []string{"mimeType", "data"}, []string{"mimeType", "data"}},
	{"fileData", []string{"fileUri"}, []string{"mimeType", "fileUri"}},
}

func set(names ...string) map[string]bool {
	members := map[string]bool{}
	for _, name := range names {
		members[name] = true
	}
	return members
}

// canonicalBody returns the JSON of an event without its route, which is in the actions, as other ADKs have it.
func canonicalBody(event session.Event) (text string, replaced bool, err error) {
	if event.Routes == nil {
		return encodeJSON(&event)
	}
	actions, err := json.Marshal(event.Actions)
	if err != nil {
		return "", false, err
	}
	route, err := json.Marshal(event.Routes)
	if err != nil {
		return "", false, err
	}
	event.Routes = nil
	type bare session.Event
	last := strings.TrimPrefix(string(actions), "{")
	if last != "}" {
		last = "," + last
	}
	return encodeJSON(struct {
		*bare
		Actions json.RawMessage `json:"actions"`
	}{(*bare)(&event), json.RawMessage(`{"route":` + string(route) + last)})
}

// decodeOwn reads the body of an event that the ADK for Go holds completely.
func decodeOwn(body string) (*session.Event, bool) {
	type own session.Event
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	var event own
	err := decoder.Decode(&event)
	return (*session.Event)(&event), err == nil
}

// decodeCanonical reads a body in any form as far as possible, and returns the paths that it has left out.
func decodeCanonical(body string, at time.Time) (*session.Event, []string) {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	tree := map[string]any{}
	if err := decoder.Decode(&tree); err != nil {
		return &session.Event{}, []string{"(the whole body)"}
	}
	tree = toCanonical(tree)
	moveRoutes(tree)
	// The envelope has the time, whatever form the body has it in. The ADK's own form has a zone, too.
	text, _ := tree["timestamp"].(string)
	if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
		tree["timestamp"] = at.Format(time.RFC3339Nano)
	}

	var event session.Event
	if readInto(&event, tree) {
		return &event, nil
	}
	var omitted []string
	kept, _ := prune(tree, nil, func(candidate any) bool { return readInto(new(session.Event), candidate) }, &omitted)
	event = session.Event{}
	if !readInto(&event, kept) {
		return &session.Event{}, []string{"(the whole body)"}
	}
	return &event, omitted
}

func readInto(event *session.Event, tree any) bool {
	text, err := json.Marshal(tree)
	return err == nil && json.Unmarshal(text, event) == nil
}

// moveRoutes moves the route from the actions to the event, where the ADK for Go has it.
func moveRoutes(tree map[string]any) {
	actions, _ := tree["actions"].(map[string]any)
	route, ok := actions["route"]
	if !ok {
		return
	}
	delete(actions, "route")
	if _, isList := route.([]any); !isList {
		route = []any{route}
	}
	tree["routes"] = route
}

// toCanonical returns a copy of a body in the canonical form, but for compactions, which the ADK for Go does not have.
// Members that no rule names are kept.
func toCanonical(body map[string]any) map[string]any {
	body = rename(body).(map[string]any)
	if route, ok := body["route"]; ok {
		delete(body, "route")
		if actions, ok := body["actions"].(map[string]any); ok {
			actions["route"] = route
		} else if body["actions"] == nil {
			body["actions"] = map[string]any{"route": route}
		}
	}
	if list, ok := body["customMetadata"].([]any); ok {
		body["customMetadata"] = metadataObject(list)
	}
	if name, ok := body["finishReason"].(string); ok && renamed[name] != "" {
		body["finishReason"] = renamed[name]
	}
	return body
}

// rename returns the node with canonical names and parts, and without members that are null.
func rename(node any) any {
	switch node := node.(type) {
	case map[string]any:
		canonical := make(map[string]any, len(node))
		for given, value := range node {
			name := camelCase(given)
			if other, ok := renamed[name]; ok {
				name = other
			}
			// Of two spellings, the canonical one counts.
			if _, taken := node[name]; taken && name != given || value == nil && name != "args" && name != "response" {
				continue
			}
			if records[name] {
				value = rename(value)
			}
			canonical[name] = value
		}
		if parts, ok := canonical["parts"].([]any); ok {
			for _, part := range parts {
				if part, ok := part.(map[string]any); ok {
					convertPart(part)
				}
			}
			if canonical["role"] == "function" {
				canonical["role"] = "user"
			}
		}
		return canonical
	case []any:
		items := make([]any, len(node))
		for at := range node {
			items[at] = rename(node[at])
		}
		return items
	}
	return node
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for at := 1; at < len(words); at++ {
		if words[0] != "" && words[at] != "" {
			words[at] = strings.ToUpper(words[at][:1]) + words[at][1:]
		}
	}
	if words[0] == "" {
		return name
	}
	return strings.Join(words, "")
}

// metadataObject turns Java's list of keys with typed values into an object.
func metadataObject(list []any) map[string]any {
	object := map[string]any{}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		key, ok := entry["key"].(string)
		if !ok {
			continue
		}
		object[key] = nil
		for _, form := range []string{"stringValue", "numericValue"} {
			if value, ok := entry[form]; ok {
				object[key] = value
			}
		}
		if values, ok := entry["stringListValue"].(map[string]any); ok {
			object[key] = values["values"]
		}
	}
	return object
}

// convertPart changes a part: its kind becomes a member around it, and its bytes standard base64.
func convertPart(part map[string]any) {
	if _, ok := part["thinking"].(string); ok {
		move(part, "thinking", part, "text")
		move(part, "signature", part, "thoughtSignature")
		part["thought"] = true
	}
	for _, bare := range bareParts {
		if slices.ContainsFunc(bare.required, func(name string) bool { _, ok := part[name]; return !ok }) {
			continue
		}
		inner := map[string]any{}
		for _, member := range bare.members {
			move(part, member, inner, member)
		}
		part[bare.kind] = inner
	}
	if call, ok := part["functionCall"].(map[string]any); ok && call["args"] == nil {
		if _, given := call["args"]; given {
			call["args"] = map[string]any{}
		}
	}
	if answer, ok := part["functionResponse"].(map[string]any); ok {
		move(part, "id", answer, "id")
		// A tool in Rust may return any JSON. The ADK for Python wraps what is not an object in this way.
		if response, given := answer["response"]; given {
			if _, isObject := response.(map[string]any); !isObject {
				answer["response"] = map[string]any{"result": response}
			}
		}
	}
	blob, _ := part["inlineData"].(map[string]any)
	for name, owner := range map[string]map[string]any{"data": blob, "thoughtSignature": part} {
		if text, ok := standardBase64(owner[name]); ok {
			owner[name] = text
		}
	}
}

func move(from map[string]any, name string, to map[string]any, as string) {
	if value, ok := from[name]; ok {
		delete(from, name)
		to[as] = value
	}
}

// standardBase64 converts Python's URL-safe alphabet, missing padding, and Rust's lists of numbers.
func standardBase64(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		text := strings.TrimRight(value, "=")
		if !strings.ContainsAny(text, "-_") && len(value)%4 == 0 {
			return "", false
		}
		text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
		data, err := base64.RawStdEncoding.DecodeString(text)
		return base64.StdEncoding.EncodeToString(data), err == nil
	case []any:
		data := make([]byte, 0, len(value))
		for _, item := range value {
			number, _ := item.(json.Number)
			octet, err := number.Int64()
			if err != nil || octet < 0 || octet > 255 {
				return "", false
			}
			data = append(data, byte(octet))
		}
		return base64.StdEncoding.EncodeToString(data), true
	}
	return "", false
}

// prune returns node without what does not pass. passes gets a whole event that consists of the path to node and a
// candidate for it. Each level is tried whole first, so the work is bounded by what is wrong.
func prune(node any, path []string, passes func(any) bool, omitted *[]string) (any, bool) {
	if passes(node) {
		return node, true
	}
	switch node := node.(type) {
	case map[string]any:
		// An empty object fails where a list or a scalar is expected.
		if passes(map[string]any{}) {
			kept := map[string]any{}
			for _, name := range slices.Sorted(maps.Keys(node)) {
				within := func(candidate any) bool { return passes(map[string]any{name: candidate}) }
				if value, ok := prune(node[name], append(path, name), within, omitted); ok {
					kept[name] = value
				}
			}
			return kept, true
		}
	case []any:
		if passes([]any{}) {
			kept := []any{}
			for at, item := range node {
				within := func(candidate any) bool { return passes([]any{candidate}) }
				if value, ok := prune(item, append(path, fmt.Sprint(at)), within, omitted); ok {
					kept = append(kept, value)
				}
			}
			return kept, true
		}
	}
	switch {
	case len(*omitted) < maxOmitted:
		*omitted = append(*omitted, strings.Join(path, "."))
	case len(*omitted) == maxOmitted:
		*omitted = append(*omitted, "and more")
	}
	return nil, false
}
