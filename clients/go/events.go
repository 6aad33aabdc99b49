package sessiond

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// The body of a stored event is its canonical form (canonical.go): the event's own JSON as the ADK writes it, but for the
// route, and complete except for actions.stateDelta, which is sent as the typed delta. Fields that this version of the ADK does not know, from a newer version or another language,
// are missing from the decoded object and stay in the store.

// encodedEvent is an event as it is sent.
type encodedEvent struct {
	message *pb.Event
	// texts are the JSON texts of the values that the event sets, `temp:` keys only if they are shared.
	texts map[string]string
}

// encodeEvent does not change event. `temp:` keys are sent only if withTemp.
func encodeEvent(
	event *session.Event, operations []Operation, withTemp bool, logger *slog.Logger,
) (*encodedEvent, error) {
	mended := &mendedKeys{}
	texts, err := encodeValues(event.Actions.StateDelta, withTemp, mended)
	if err != nil {
		return nil, err
	}
	delta, err := encodeDelta(texts, operations, mended)
	if err != nil {
		return nil, err
	}
	time := timestamppb.New(event.Timestamp)
	if err := time.CheckValid(); err != nil {
		return nil, fmt.Errorf("sessiond: the time of event %q is outside the years 1 to 9999: %w", event.ID, err)
	}
	bare := *event
	bare.Actions.StateDelta = nil
	if event.Actions.StateDelta != nil && len(withoutTemp(event.Actions.StateDelta)) == 0 {
		// The ADK tells an empty map from nil, and so does the body.
		bare.Actions.StateDelta = map[string]any{}
	}
	bare.Content = markEmptyMaps(bare.Content)
	body, replaced, err := canonicalBody(bare)
	if err != nil {
		return nil, fmt.Errorf("sessiond: event %q has no JSON form: %w", event.ID, err)
	}
	mended.warn(logger, "event", event.ID)
	if replaced {
		logger.Warn("sessiond: replaced text that is not UTF-8 in an event's body by U+FFFD", "event", event.ID)
	}
	return &encodedEvent{
		texts: texts,
		message: &pb.Event{
			EventId:      event.ID,
			InvocationId: event.InvocationID,
			Author:       event.Author,
			Branch:       event.Branch,
			EventTime:    time,
			StateDelta:   delta,
			BodyForm:     &pb.Event_BodyJson{BodyJson: strings.ReplaceAll(body, markedMap, "{}")},
		},
	}, nil
}

// The ADK's JSON omits arguments and responses that are empty. After a read they would be nil, which a model is shown as null.
// So an empty map has a member while the event is encoded, which is then cut out. It is random, so that nothing else matches.
var (
	mark      = newID()
	markedMap = fmt.Sprintf(`{"%s":null}`, mark)
)

// markEmptyMaps returns content, or a copy of it in which empty maps are marked.
func markEmptyMaps(content *genai.Content) *genai.Content {
	isEmpty := func(values map[string]any) bool { return values != nil && len(values) == 0 }
	if content == nil || !slices.ContainsFunc(content.Parts, func(part *genai.Part) bool {
		return part != nil && (part.FunctionCall != nil && isEmpty(part.FunctionCall.Args) ||
			part.FunctionResponse != nil && isEmpty(part.FunctionResponse.Response))
	}) {
		return content
	}
	marked := *content
	marked.Parts = slices.Clone(content.Parts)
	for at, part := range marked.Parts {
		if part == nil {
			continue
		}
		copied := *part
		if call := part.FunctionCall; call != nil && isEmpty(call.Args) {
			copied.FunctionCall = new(*call)
			copied.FunctionCall.Args = map[string]any{mark: nil}
		}
		if response := part.FunctionResponse; response != nil && isEmpty(response.Response) {
			copied.FunctionResponse = new(*response)
			copied.FunctionResponse.Response = map[string]any{mark: nil}
		}
		marked.Parts[at] = &copied
	}
	return &marked
}

func withoutTemp(delta map[string]any) map[string]any {
	kept := make(map[string]any, len(delta))
	for key, value := range delta {
		if !isTemp(key) {
			kept[key] = value
		}
	}
	return kept
}

// decodeEvent returns the event of a stored one. It never fails: what this version of the ADK cannot read is left out,
// and logged.
//
// A removed key is nil in the delta, as the ADK has no other form for it. Id, invocation, author, branch and time come
// from the envelope, as the body need not be the ADK's own.
func decodeEvent(stored *pb.Event, logger *slog.Logger) *session.Event {
	event := decodeBody(stored, logger)
	delta := decodeDelta(stored.StateDelta)
	switch {
	case len(delta) > 0:
		event.Actions.StateDelta = delta
	case len(event.Actions.StateDelta) > 0:
		// A delta in the body was not committed with the event.
		event.Actions.StateDelta = map[string]any{}
	}
	event.ID = stored.EventId
	event.InvocationID = stored.InvocationId
	event.Author = stored.Author
	if stored.Branch != "" {
		event.Branch = stored.Branch
	}
	// The body keeps the zone of the time.
	if time := stored.EventTime.AsTime(); !event.Timestamp.Equal(time) {
		event.Timestamp = time
	}
	return event
}

// decodeDelta returns the new value of each key, nil for removed keys.
func decodeDelta(delta *pb.StateDelta) map[string]any {
	texts, err := splitObject(delta.GetSetJson())
	if err != nil {
		// The server sends what it has checked.
		return nil
	}
	values := decodeValues(texts)
	for _, key := range delta.GetRemove() {
		values[key] = nil
	}
	return values
}

func decodeBody(stored *pb.Event, logger *slog.Logger) *session.Event {
	body := stored.GetBodyJson()
	if body == "" {
		return &session.Event{}
	}
	event, ok := decodeOwn(body)
	if ok {
		return event
	}
	event, omitted := decodeCanonical(body, stored.EventTime.AsTime())
	if len(omitted) > 0 {
		logger.Warn("sessiond: omitted fields of an event that this version of the ADK cannot read",
			"event", stored.EventId, "fields", strings.Join(omitted, ", "))
	}
	return event
}
