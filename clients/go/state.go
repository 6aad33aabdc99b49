package sessiond

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/adk/v2/session"
)

// The server returns every value byte for byte as it was stored. Values are therefore compared as texts: two texts that
// differ are a change, and no deep comparison is needed.

func isTemp(key string) bool { return strings.HasPrefix(key, session.KeyPrefixTemp) }

func encodeValue(key string, value any, mended *mendedKeys) (string, error) {
	if !utf8.ValidString(key) {
		return "", &StateValueError{Key: key, Err: errors.New("the key is not UTF-8")}
	}
	text, replaced, err := encodeJSON(value)
	if err != nil {
		return "", &StateValueError{Key: key, Err: err}
	}
	if replaced {
		mended.add(key)
	}
	return text, nil
}

// encodeValues returns the JSON text of each value by key, `temp:` keys only if withTemp.
func encodeValues(values map[string]any, withTemp bool, mended *mendedKeys) (map[string]string, error) {
	texts := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if isTemp(key) && !withTemp {
			continue
		}
		text, err := encodeValue(key, values[key], mended)
		if err != nil {
			return nil, err
		}
		texts[key] = text
	}
	return texts, nil
}

// joinObject returns a JSON object of values that are JSON texts already, with sorted keys: a retry sends equal bytes.
func joinObject(texts map[string]string) string {
	var object bytes.Buffer
	object.WriteByte('{')
	for at, key := range slices.Sorted(maps.Keys(texts)) {
		if at > 0 {
			object.WriteByte(',')
		}
		// A string always has a JSON form.
		name, _ := json.Marshal(key)
		object.Write(name)
		object.WriteByte(':')
		object.WriteString(texts[key])
	}
	object.WriteByte('}')
	return object.String()
}

// splitObject returns the JSON text of each member of an object. "" counts as an empty object.
func splitObject(text string) (map[string]string, error) {
	members := map[string]json.RawMessage{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			return nil, fmt.Errorf("sessiond: the server's state is not a JSON object: %w", err)
		}
	}
	texts := make(map[string]string, len(members))
	for key, raw := range members {
		texts[key] = string(raw)
	}
	return texts, nil
}

// decodeValue returns the value of a JSON text by the ADK's rule: numbers are float64. A number beyond the range of
// float64 becomes a json.Number.
func decodeValue(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err == nil {
		return value
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return text
	}
	return value
}

func decodeValues(texts map[string]string) map[string]any {
	values := make(map[string]any, len(texts))
	for key, text := range texts {
		values[key] = decodeValue(text)
	}
	return values
}
