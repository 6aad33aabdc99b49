package sessiond_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

// maxDepth covers every field of a model response. Fields below it stay unset.
const maxDepth = 9

// filler sets every field of a value, with different values, so that swapped fields are detected.
type filler struct{ number int }

func (f *filler) next() int {
	f.number++
	return f.number
}

func (f *filler) fill(t *testing.T, v reflect.Value, depth int) {
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Date(2026, 1, 2, 3, 4, 5, f.next()*1001, time.FixedZone("", 3600))
		return
	case *time.Duration:
		// The ADK writes whole seconds.
		*at = time.Duration(f.next()) * time.Second
		return
	case *[]byte:
		*at = []byte{byte(f.next()), 0xFF, 0xFE, 0x00, 0x3E, 0x3F}
		return
	case **jsonschema.Schema:
		*at = &jsonschema.Schema{Type: "object", Required: []string{"a"}}
		return
	case *any:
		*at = map[string]any{"nothing": nil, "number": 0.1, "text": "ü\u2028\U0001f600<&>", "list": []any{nil, []any{1.0}}}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", f.next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.next()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.next()) + 0.5)
	case reflect.Pointer:
		if depth < maxDepth {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(t, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < maxDepth {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			f.fill(t, v.Index(0), depth+1)
			f.fill(t, v.Index(1), depth+1)
		}
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		f.fill(t, element, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), element)
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			if field.IsExported() && len(field.Index) == 1 {
				f.fill(t, v.FieldByIndex(field.Index), depth+1)
			}
		}
	default:
		t.Fatalf("no value for %v", v.Type())
	}
}

func fullEvent(t *testing.T) *session.Event {
	t.Helper()
	event := &session.Event{}
	new(filler).fill(t, reflect.ValueOf(event).Elem(), 0)
	event.Partial = false
	event.Actions.StateDelta = map[string]any{"app:a": 1.0, "user:u": nil, "plain": []any{"x", true}, "app:": "", "other:x": map[string]any{}}
	return event
}

// TestFullEvent stores an event with every field of the ADK set, recursively.
func TestFullEvent(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			s := create(t, service, "s", nil)
			event := fullEvent(t)
			before, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			appendTo(t, service, s, event)
			found := get(t, service, "s").Events().At(0)
			if diff := cmp.Diff(event, found); diff != "" {
				t.Errorf("-sent +read:\n%s", diff)
			}
			after, err := json.Marshal(found)
			if diff := cmp.Diff(string(before), string(after)); err != nil || diff != "" {
				t.Errorf("the JSON has changed, error %v:\n%s", err, diff)
			}
			for _, field := range reflect.VisibleFields(reflect.TypeFor[session.Event]()) {
				if value := reflect.ValueOf(*found).FieldByIndex(field.Index); field.Name != "Partial" && value.IsZero() {
					t.Errorf("%s is not set", field.Name)
				}
			}
		})
	}
}

// TestEdgesOfEvents keeps differences that the ADK makes.
func TestEdgesOfEvents(t *testing.T) {
	service := inMemory(t)
	s := create(t, service, "s", nil)
	for name, event := range map[string]*session.Event{
		"zero":          {ID: "zero"},
		"empty delta":   {ID: "empty", Actions: session.EventActions{StateDelta: map[string]any{}, ArtifactDelta: map[string]int64{}}},
		"earliest":      {ID: "earliest", Timestamp: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)},
		"latest":        {ID: "latest", Timestamp: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)},
		"before 1970":   {ID: "before", Timestamp: time.Date(1969, 12, 31, 23, 59, 59, 1, time.UTC)},
		"a zone":        {ID: "zone", Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", -5400))},
		"null in delta": {ID: "null", Actions: session.EventActions{StateDelta: map[string]any{"k": nil}}},
		"empty maps": {ID: "maps", LLMResponse: model.LLMResponse{Content: &genai.Content{Role: "model", Parts: []*genai.Part{
			{FunctionCall: &genai.FunctionCall{Name: "f", Args: map[string]any{}}},
			{FunctionResponse: &genai.FunctionResponse{Name: "f", Response: map[string]any{}}},
			{FunctionCall: &genai.FunctionCall{Name: "f"}},
			{FunctionResponse: &genai.FunctionResponse{Name: "f"}},
		}}}},
		"names in snake": {ID: "snake", Output: map[string]any{"invocation_id": 1.0, "function_call": map[string]any{"a_b": nil}}},
	} {
		appendTo(t, service, s, event)
		found := get(t, service, "s")
		if diff := cmp.Diff(event, found.Events().At(found.Events().Len()-1)); diff != "" {
			t.Errorf("%s: -sent +read:\n%s", name, diff)
		}
	}
	appendTo(t, service, s, &session.Event{ID: "temp", Actions: session.EventActions{StateDelta: map[string]any{"temp:t": 1}}})
	found := get(t, service, "s")
	if delta := found.Events().At(found.Events().Len() - 1).Actions.StateDelta; delta == nil || len(delta) != 0 {
		t.Errorf("the delta of an event with temp: keys alone is %v, want an empty map", delta)
	}
	without := &session.Event{}
	appendTo(t, service, s, without)
	if without.ID == "" {
		t.Error("an event without id did not get one")
	}
}

// TestNumbersOfOthers reads numbers beyond float64 without destroying them.
func TestNumbersOfOthers(t *testing.T) {
	server := startServer(t, "sqlite:test.db")
	service := connect(t, server)
	create(t, service, "s", nil)
	const large = "9007199254740993"
	raw(t, server, "s", `{}`, `{"large":`+large+`,"exact":`+large+`,"list":[1,2.0]}`)
	s := get(t, service, "s")
	if got := stateOf(s)["large"]; got != 9007199254740992.0 {
		t.Errorf("large is %v", got)
	}
	appendTo(t, service, s, deltaEvent(t, map[string]any{"other": 1}))
	sum, err := service.Increment(t.Context(), s, "large", 1)
	if err != nil || sum.String() != "9007199254740994" {
		t.Errorf("Increment() = %v, %v", sum, err)
	}
	if got := rawState(t, server, "s")["exact"]; string(got) != large {
		t.Errorf("exact is %s, want %s", got, large)
	}
}
