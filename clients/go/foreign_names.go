package sessiond

import (
	"reflect"
	"strings"
	"sync"
	"unicode"

	"google.golang.org/adk/v2/session"
)

// hasForeignNames tells whether a body may have names in snake_case, which encoding/json would ignore without an error.
// A false alarm costs only time.
func hasForeignNames(body string) bool {
	if strings.Contains(body, `"thinking"`) {
		return true
	}
	for rest := body; ; {
		at := strings.IndexByte(rest, '_')
		if at < 0 {
			return false
		}
		start := strings.LastIndexByte(rest[:at], '"') + 1
		length := strings.IndexByte(rest[at:], '"')
		if start > 0 && length >= 0 && snakeNames()[rest[start:at+length]] {
			return true
		}
		rest = rest[at+1:]
		if length > 0 {
			rest = rest[length-1:]
		}
	}
}

// snakeNames are the names in an event's JSON that have another form in snake_case.
var snakeNames = sync.OnceValue(func() map[string]bool {
	names, seen := map[string]bool{}, map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(at reflect.Type) {
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice || at.Kind() == reflect.Map {
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct || seen[at] {
			return
		}
		seen[at] = true
		for _, field := range reflect.VisibleFields(at) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if snake := snakeCase(name); snake != name {
				names[snake] = true
			}
			walk(field.Type)
		}
	}
	walk(reflect.TypeFor[session.Event]())
	return names
})

func snakeCase(name string) string {
	var snake strings.Builder
	for _, letter := range name {
		if letter >= 'A' && letter <= 'Z' {
			snake.WriteByte('_')
		}
		snake.WriteRune(unicode.ToLower(letter))
	}
	return snake.String()
}
