package sessiond

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A Go string may hold any bytes, and a json.RawMessage half a surrogate pair; the server takes UTF-8. Values and bodies
// are mended to U+FFFD with a warning, so that one cut text does not lose an answer. Ids and keys are refused: a mended
// one would address something else.

// encodeJSON returns the JSON text of a value, and whether it had to be mended.
func encodeJSON(value any) (text string, mended bool, err error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", false, err
	}
	text, mended = mendJSON(string(raw))
	return text, mended, nil
}

// mendJSON replaces what is not UTF-8 and halves of surrogate pairs in a JSON text. encoding/json has replaced those of
// Go strings by the escape of U+FFFD, which it writes for nothing else: the character itself is not escaped.
func mendJSON(text string) (string, bool) {
	mended := strings.ToValidUTF8(text, "\ufffd")
	replaced := mended != text
	// Most texts have no such escape.
	if !strings.Contains(mended, `\u`) {
		return mended, replaced
	}
	var result strings.Builder
	for at := 0; at < len(mended); {
		if mended[at] != '\\' || at+1 == len(mended) {
			result.WriteByte(mended[at])
			at++
			continue
		}
		length, half := escapeAt(mended[at:])
		switch {
		case half:
			result.WriteString(`\ufffd`)
			replaced = true
		default:
			escape := mended[at : at+length]
			replaced = replaced || strings.EqualFold(escape, `\ufffd`)
			result.WriteString(escape)
		}
		at += length
	}
	return result.String(), replaced
}

// escapeAt returns the length of the escape that text begins with, a surrogate pair counted as one, and whether it is half
// a pair.
func escapeAt(text string) (length int, half bool) {
	first, ok := escapedUnit(text)
	switch {
	case !ok:
		return 2, false
	case !utf16.IsSurrogate(first):
		return 6, false
	}
	if second, ok := escapedUnit(text[6:]); ok && utf16.DecodeRune(first, second) != utf8.RuneError {
		return 12, false
	}
	return 6, true
}

// escapedUnit returns the UTF-16 unit of an escape like \u00e4 at the start of text.
func escapedUnit(text string) (rune, bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, false
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit), err == nil
}

// mendedKeys collects the keys whose values were mended, for one warning. nil collects nothing.
type mendedKeys struct{ keys []string }

func (m *mendedKeys) add(key string) {
	if m != nil {
		m.keys = append(m.keys, key)
	}
}

func (m *mendedKeys) warn(logger *slog.Logger, attributes ...any) {
	if len(m.keys) > 0 {
		logger.Warn("sessiond: replaced text that is not UTF-8 in values by U+FFFD", append(attributes, "keys", m.keys)...)
	}
}

// checkText refuses a request with a string that is not UTF-8, before it is sent. gRPC would fail with an INTERNAL error
// that names no value, and that looks as if the server might have applied the call.
func checkText(request any) *Error {
	message, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	violation := firstInvalidText(message.ProtoReflect(), "")
	if violation == nil {
		return nil
	}
	made := status.New(codes.InvalidArgument, violation.Field+" "+violation.Description)
	return &Error{Code: made.Code(), Message: made.Message(), Violations: []Violation{*violation}, status: made}
}

func firstInvalidText(message protoreflect.Message, path string) (found *Violation) {
	check := func(kind protoreflect.FieldDescriptor, value protoreflect.Value, path string) bool {
		switch kind.Kind() {
		case protoreflect.StringKind:
			if text := value.String(); !utf8.ValidString(text) {
				found = &Violation{path, fmt.Sprintf("%q is not valid UTF-8", text)}
			}
		case protoreflect.MessageKind:
			found = firstInvalidText(value.Message(), path+".")
		}
		return found == nil
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		at := path + string(field.Name())
		switch {
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				return check(field.MapKey(), key.Value(), at) && check(field.MapValue(), value, at)
			})
		case field.IsList():
			for n := range value.List().Len() {
				if !check(field, value.List().Get(n), fmt.Sprintf("%s[%d]", at, n)) {
					break
				}
			}
		default:
			check(field, value, at)
		}
		return found == nil
	})
	return found
}
