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

// Events of other languages and programs: the same fields, but other names (snake_case), times, base64 alphabets, forms
// of metadata and of parts. What has an equivalent is converted, and what this version of the ADK still cannot read is
// left out.

// maxOmitted bounds what one event adds to the log.
const maxOmitted = 20

// decodeForeign reads a body as far as possible, and returns the paths that it has left out.
func decodeForeign(body string, at time.Time) (*session.Event, []string) {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	tree := map[string]any{}
	if err := decoder.Decode(&tree); err != nil {
		return &session.Event{}, []string{"(the whole body)"}
	}
	tree = convertNames(tree).(map[string]any)
	// The envelope has the time, whatever form the body has it in.
	tree["timestamp"] = at.Format(time.RFC3339Nano)
	convertMetadata(tree)
	convertFinishReason(tree)
	convertParts(tree)
	convertBytes(tree)

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

// opaque are the members whose content belongs to users: names in it are not the ADK's.
var opaque = map[string]bool{
	"args": true, "response": true, "customMetadata": true, "output": true, "payload": true, "responseSchema": true,
	"stateDelta": true, "artifactDelta": true, "partMetadata": true, "requestedToolConfirmations": true,
}

// convertNames changes names from snake_case to camelCase, outside of opaque members.
func convertNames(node any) any {
	switch node := node.(type) {
	case map[string]any:
		converted := make(map[string]any, len(node))
		for _, name := range slices.Sorted(maps.Keys(node)) {
			value, camel := node[name], camelCase(name)
			if !opaque[camel] {
				value = convertNames(value)
			}
			if _, taken := node[camel]; !taken || camel == name {
				converted[camel] = value
			}
		}
		return converted
	case []any:
		for at := range node {
			node[at] = convertNames(node[at])
		}
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

// convertMetadata turns Java's list of `{key, stringValue}` into an object.
func convertMetadata(tree map[string]any) {
	list, ok := tree["customMetadata"].([]any)
	if !ok {
		return
	}
	object := map[string]any{}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		key, ok := entry["key"].(string)
		if !ok {
			return
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
	tree["customMetadata"] = object
}

// convertFinishReason turns Rust's `MaxTokens` into `MAX_TOKENS`.
func convertFinishReason(tree map[string]any) {
	reason, ok := tree["finishReason"].(string)
	if !ok || strings.ToUpper(reason) == reason {
		return
	}
	var name strings.Builder
	for at, letter := range reason {
		if at > 0 && letter >= 'A' && letter <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	tree["finishReason"] = strings.ToUpper(name.String())
}

// convertParts gives Rust's parts, which have no member around them, the form of the other languages.
func convertParts(tree map[string]any) {
	content, _ := tree["content"].(map[string]any)
	parts, _ := content["parts"].([]any)
	for _, item := range parts {
		part, ok := item.(map[string]any)
		if !ok {
			continue
		}
		has := func(names ...string) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return part[name] == nil })
		}
		answer, isAnswer := part["functionResponse"].(map[string]any)
		if response, given := answer["response"]; given {
			// A tool in Rust may return any JSON. The ADK for Python wraps what is not an object in this way.
			if _, isObject := response.(map[string]any); !isObject {
				answer["response"] = map[string]any{"result": response}
			}
		}
		_, hasArgs := part["args"]
		switch {
		case has("thinking"):
			move(part, "thinking", "text")
			move(part, "signature", "thoughtSignature")
			part["thought"] = true
		case has("name") && hasArgs:
			if part["args"] == nil {
				part["args"] = map[string]any{}
			}
			wrap(part, "functionCall", "id", "name", "args")
		case has("mimeType", "data"):
			wrap(part, "inlineData", "mimeType", "data")
		case has("mimeType", "fileUri"):
			wrap(part, "fileData", "mimeType", "fileUri")
		case isAnswer && has("id"):
			answer["id"] = part["id"]
			delete(part, "id")
		}
	}
}

func move(part map[string]any, from, to string) {
	if value, ok := part[from]; ok {
		part[to] = value
		delete(part, from)
	}
}

func wrap(part map[string]any, name string, members ...string) {
	inner := map[string]any{}
	for _, member := range members {
		if value, ok := part[member]; ok {
			inner[member] = value
			delete(part, member)
		}
	}
	part[name] = inner
}

// convertBytes finds the members that hold bytes, and writes them in the alphabet that encoding/json reads.
func convertBytes(node any) {
	switch node := node.(type) {
	case map[string]any:
		for name, value := range node {
			if opaque[name] {
				continue
			}
			switch name {
			case "data", "thoughtSignature", "sdkBlob":
				if text, ok := standardBase64(value); ok {
					node[name] = text
					continue
				}
			}
			convertBytes(value)
		}
	case []any:
		for _, item := range node {
			convertBytes(item)
		}
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
