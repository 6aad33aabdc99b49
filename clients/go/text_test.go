package sessiond_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// similar are ids that differ from the first one only by what some stores trim, fold or normalise.
var similar = []string{
	"order-42", "order-42\n", " order-42", "order-42 ", "\torder-42\r\n", "ORDER-42", "order-42\u00a0", "order-42\u200b",
	"o\u0308rder-42", "\u00f6rder-42", "\ufefforder-42", " ", "  ",
}

// TestIDsAreSentAsTheyAre addresses each of similar sessions by the id that the list returns, with every call.
func TestIDsAreSentAsTheyAre(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			ctx := t.Context()
			for _, id := range similar {
				s := create(t, service, id, map[string]any{"id": id})
				appendTo(t, service, s, textEvent(t, id))
			}
			listed, err := service.List(ctx, &session.ListRequest{AppName: app, UserID: user})
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, one := range listed.Sessions {
				found = append(found, one.ID())
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(similar)), found); diff != "" {
				t.Fatalf("the listed ids (-want +got):\n%s", diff)
			}
			for n, one := range listed.Sessions {
				id, key := one.ID(), sessiond.KeyOf(one)
				if got := get(t, service, id); stateOf(got)["id"] != id || got.ID() != id {
					t.Errorf("Get(%q) returns the session of %q", id, stateOf(got)["id"])
				}
				appendTo(t, service, one, textEvent(t, id))
				if err := service.Refresh(ctx, one); err != nil || stateOf(one)["id"] != id || one.Events().Len() != 2 {
					t.Errorf("Refresh(%q) = %v, %v", id, err, stateOf(one))
				}
				for stored, err := range service.ListEvents(ctx, key, sessiond.EventsQuery{}) {
					if err != nil || stored.Event.Content.Parts[0].Text != id {
						t.Errorf("ListEvents(%q) = %+v, %v", id, stored, err)
					}
				}
				state, err := service.UpdateState(ctx, sessiond.Scope(key), sessiond.Delta{Set: map[string]any{id: 1}})
				if err != nil || state["id"] != id || state[id] != 1.0 {
					t.Errorf("UpdateState(%q) = %v, %v", id, state, err)
				}
				if state, err := service.GetState(ctx, sessiond.Scope(key)); err != nil || state["id"] != id {
					t.Errorf("GetState(%q) = %v, %v", id, state, err)
				}
				forked, err := service.Fork(ctx, sessiond.ForkRequest{Source: key, SessionID: id + " fork"})
				if err != nil || stateOf(forked)["id"] != id || forked.ID() != id+" fork" {
					t.Errorf("Fork(%q) = %v", id, err)
				}
				if err := service.DeleteSession(ctx, sessiond.KeyOf(forked)); err != nil {
					t.Errorf("DeleteSession(%q) = %v", forked.ID(), err)
				}
				if rewound, err := service.Rewind(ctx, key, 1); err != nil || stateOf(rewound)["id"] != id {
					t.Errorf("Rewind(%q) = %v", id, err)
				}
				if _, err := service.Expire(ctx, key, time.Hour); err != nil {
					t.Errorf("Expire(%q) = %v", id, err)
				}
				for item, err := range service.Watch(ctx, sessiond.Scope(key), sessiond.WatchOptions{}) {
					if snapshot, ok := item.(sessiond.Snapshot); err != nil || !ok || snapshot.State["id"] != id {
						t.Errorf("Watch(%q) = %v, %v", id, item, err)
					}
					break
				}
				if err := service.Delete(ctx, &session.DeleteRequest{AppName: app, UserID: user, SessionID: id}); err != nil {
					t.Errorf("Delete(%q) = %v", id, err)
				}
				rest, err := service.List(ctx, &session.ListRequest{AppName: app, UserID: user})
				if err != nil || len(rest.Sessions) != len(similar)-n-1 {
					t.Fatalf("Delete(%q) left %d sessions, %v", id, len(rest.Sessions), err)
				}
			}
		})
	}
}

// TestInvalidIDsAndKeysAreRefused sends nothing for an id or a key that is not UTF-8, at every entry.
func TestInvalidIDsAndKeysAreRefused(t *testing.T) {
	p := startProxy(t, startServer(t, "memory:").Address, &proxy{})
	service := dial(t, p.address, sessiond.WithSharedTemp())
	s := create(t, service, "s", nil)
	watch := func(ctx context.Context, scope sessiond.Scope, options sessiond.WatchOptions) (last error) {
		for _, err := range service.Watch(ctx, scope, options) {
			last = err
		}
		return last
	}
	appending := func(event session.Event, operations ...sessiond.Operation) func(context.Context, string) error {
		return func(ctx context.Context, bad string) error {
			for _, field := range []*string{&event.ID, &event.InvocationID, &event.Author, &event.Branch} {
				*field = strings.ReplaceAll(*field, "BAD", bad)
			}
			return service.AppendEventWith(ctx, s, &event, operations...)
		}
	}
	operation := func(made func(key string) sessiond.Operation) func(context.Context, string) error {
		return func(ctx context.Context, bad string) error {
			return service.AppendEventWith(ctx, s, textEvent(t, "x"), made(bad))
		}
	}
	calls := map[string]func(context.Context, string) error{
		"event id":      appending(session.Event{ID: "BAD"}),
		"invocation id": appending(session.Event{ID: "e", InvocationID: "BAD"}),
		"author":        appending(session.Event{ID: "e", Author: "BAD"}),
		"branch":        appending(session.Event{ID: "e", Branch: "BAD"}),
		"key of a delta": func(ctx context.Context, bad string) error {
			return service.AppendEvent(ctx, s, deltaEvent(t, map[string]any{bad: 1}))
		},
		"temp: key": func(ctx context.Context, bad string) error {
			return service.AppendEvent(ctx, s, deltaEvent(t, map[string]any{"temp:" + bad: 1}))
		},
		"key of Change": func(ctx context.Context, bad string) error {
			_, err := service.Change(ctx, s, sessiond.Delta{Set: map[string]any{"user:" + bad: 1}})
			return err
		},
		"Increment":      operation(func(key string) sessiond.Operation { return sessiond.Increment{Key: key, By: 1} }),
		"IncrementFloat": operation(func(key string) sessiond.Operation { return sessiond.IncrementFloat{Key: key, By: 1} }),
		"ListAppend":     operation(func(key string) sessiond.Operation { return sessiond.ListAppend{Key: key} }),
		"SetIfAbsent":    operation(func(key string) sessiond.Operation { return sessiond.SetIfAbsent{Key: key} }),
		"MergePatch":     operation(func(key string) sessiond.Operation { return sessiond.MergePatch{Key: key} }),
		"Remove":         operation(func(key string) sessiond.Operation { return sessiond.Remove{Key: key} }),
		"key of UpdateState": func(ctx context.Context, bad string) error {
			_, err := service.UpdateState(ctx, sessiond.Scope{AppName: app}, sessiond.Delta{Set: map[string]any{"app:" + bad: 1}})
			return err
		},
		"key of Create": func(ctx context.Context, bad string) error {
			_, err := service.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, State: map[string]any{bad: 1}})
			return err
		},
		"fork id": func(ctx context.Context, bad string) error {
			_, err := service.Fork(ctx, sessiond.ForkRequest{Source: sessiond.KeyOf(s), SessionID: bad})
			return err
		},
		"id of GetEvents": func(ctx context.Context, bad string) error {
			_, _, err := service.GetEvents(ctx, sessiond.KeyOf(s), sessiond.ByID(bad))
			return err
		},
		"list of an app": func(ctx context.Context, bad string) error {
			_, err := service.List(ctx, &session.ListRequest{AppName: bad})
			return err
		},
		"list of a user": func(ctx context.Context, bad string) error {
			_, err := service.List(ctx, &session.ListRequest{AppName: app, UserID: bad})
			return err
		},
		"invocation of GetStateWithin": func(ctx context.Context, bad string) error {
			_, err := service.GetStateWithin(ctx, sessiond.Scope{AppName: app, UserID: user, SessionID: "s"}, bad)
			return err
		},
		"invocation of EndInvocation": func(ctx context.Context, bad string) error { return service.EndInvocation(ctx, s, bad) },
		"cursor": func(ctx context.Context, bad string) error {
			return watch(ctx, sessiond.Scope{AppName: app}, sessiond.WatchOptions{Resume: bad})
		},
	}
	// Every call with an address, by each part of it.
	for name, call := range map[string]func(ctx context.Context, appName, userID, id string) error{
		"Create": func(ctx context.Context, appName, userID, id string) error {
			_, err := service.Create(ctx, &session.CreateRequest{AppName: appName, UserID: userID, SessionID: id})
			return err
		},
		"Get": func(ctx context.Context, appName, userID, id string) error {
			_, err := service.Get(ctx, &session.GetRequest{AppName: appName, UserID: userID, SessionID: id})
			return err
		},
		"GetAsOf": func(ctx context.Context, appName, userID, id string) error {
			_, err := service.GetAsOf(ctx, &session.GetRequest{AppName: appName, UserID: userID, SessionID: id}, 0)
			return err
		},
		"Delete": func(ctx context.Context, appName, userID, id string) error {
			return service.Delete(ctx, &session.DeleteRequest{AppName: appName, UserID: userID, SessionID: id})
		},
		"DeleteSession": func(ctx context.Context, appName, userID, id string) error {
			return service.DeleteSession(ctx, sessiond.Key{AppName: appName, UserID: userID, SessionID: id})
		},
		"ListEvents": func(ctx context.Context, appName, userID, id string) (last error) {
			key := sessiond.Key{AppName: appName, UserID: userID, SessionID: id}
			for _, err := range service.ListEvents(ctx, key, sessiond.EventsQuery{}) {
				last = err
			}
			return last
		},
		"GetEvents": func(ctx context.Context, appName, userID, id string) error {
			_, _, err := service.GetEvents(ctx, sessiond.Key{AppName: appName, UserID: userID, SessionID: id}, sessiond.ByID(id))
			return err
		},
		"Fork": func(ctx context.Context, appName, userID, id string) error {
			key := sessiond.Key{AppName: appName, UserID: userID, SessionID: id}
			_, err := service.Fork(ctx, sessiond.ForkRequest{Source: key})
			return err
		},
		"Rewind": func(ctx context.Context, appName, userID, id string) error {
			_, err := service.Rewind(ctx, sessiond.Key{AppName: appName, UserID: userID, SessionID: id}, 0)
			return err
		},
		"Expire": func(ctx context.Context, appName, userID, id string) error {
			_, err := service.Expire(ctx, sessiond.Key{AppName: appName, UserID: userID, SessionID: id}, time.Hour)
			return err
		},
		"GetState": func(ctx context.Context, appName, userID, id string) error {
			_, err := service.GetState(ctx, sessiond.Scope{AppName: appName, UserID: userID, SessionID: id})
			return err
		},
		"UpdateState": func(ctx context.Context, appName, userID, id string) error {
			_, err := service.UpdateState(ctx, sessiond.Scope{AppName: appName, UserID: userID, SessionID: id}, sessiond.Delta{})
			return err
		},
		"Watch": func(ctx context.Context, appName, userID, id string) error {
			return watch(ctx, sessiond.Scope{AppName: appName, UserID: userID, SessionID: id}, sessiond.WatchOptions{})
		},
	} {
		calls[name+" app"] = func(ctx context.Context, bad string) error { return call(ctx, bad, user, "s") }
		calls[name+" user"] = func(ctx context.Context, bad string) error { return call(ctx, app, bad, "s") }
		calls[name+" session"] = func(ctx context.Context, bad string) error { return call(ctx, app, user, bad) }
	}
	sent := func() (count int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, requests := range p.requests {
			count += len(requests)
		}
		return count
	}
	before := sent()
	for name, call := range calls {
		for kind, bad := range map[string]string{"a byte": "a\xffb", "half a surrogate pair": "a\xed\xa0\xbd"} {
			err := call(t.Context(), bad)
			failure, _ := errors.AsType[*sessiond.Error](err)
			value, _ := errors.AsType[*sessiond.StateValueError](err)
			if value == nil && (!errors.Is(err, sessiond.ErrInvalid) || failure.MayBeApplied) || !strings.Contains(err.Error(), "UTF-8") {
				t.Errorf("%s with %s = %v, want a refusal", name, kind, err)
			}
		}
	}
	if after := sent(); after != before {
		t.Errorf("%d calls were sent", after-before)
	}
}

// TestMendedValues stores values and bodies whose text is cut, with one warning that names what was mended.
func TestMendedValues(t *testing.T) {
	const replaced = "\ufffd"
	server := startServer(t, "memory:")
	for name, test := range map[string]struct {
		value any
		want  any
		warns bool
	}{
		"a byte":                    {"a\xffb", "a" + replaced + "b", true},
		"half a pair":               {"a\xed\xa0\xbd", "a" + strings.Repeat(replaced, 3), true},
		"nested":                    {map[string]any{"l": []any{"\xff"}}, map[string]any{"l": []any{replaced}}, true},
		"a member's name":           {map[string]any{"\xff": 1.0}, map[string]any{replaced: 1.0}, true},
		"raw, a high half":          {json.RawMessage(`"a\ud83d"`), "a" + replaced, true},
		"raw, capitals":             {json.RawMessage(`"a\uD83Db"`), "a" + replaced + "b", true},
		"raw, a low half":           {json.RawMessage(`["\ude00x"]`), []any{replaced + "x"}, true},
		"raw, halves reversed":      {json.RawMessage(`"\ude00\ud83d"`), replaced + replaced, true},
		"raw, two high halves":      {json.RawMessage(`"\ud83d\ud83d\ude00"`), replaced + "\U0001f600", true},
		"raw, a half and an escape": {json.RawMessage(`"\ud83d\n"`), replaced + "\n", true},
		"raw, a byte":               {json.RawMessage("\"a\xff\""), "a" + replaced, true},
		"raw, a pair":               {json.RawMessage(`"\ud83d\ude00"`), "\U0001f600", false},
		"raw, no escape":            {json.RawMessage(`"\\ud83d"`), `\ud83d`, false},
		"the character itself":      {"a" + replaced, "a" + replaced, false},
		"an emoji":                  {"\U0001f600", "\U0001f600", false},
		"quotes":                    {`"\u"`, `"\u"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			for write, call := range map[string]func(*sessiond.Service, session.Session) error{
				"delta": func(service *sessiond.Service, s session.Session) error {
					return service.AppendEvent(t.Context(), s, deltaEvent(t, map[string]any{"key": test.value, "other": "x"}))
				},
				"SetIfAbsent": func(service *sessiond.Service, s session.Session) error {
					_, err := service.SetIfAbsent(t.Context(), s, "key", test.value)
					return err
				},
				"AppendToList": func(service *sessiond.Service, s session.Session) error {
					_, err := service.AppendToList(t.Context(), s, "key", []any{test.value}, 0)
					return err
				},
				"Merge": func(service *sessiond.Service, s session.Session) error {
					_, err := service.Merge(t.Context(), s, "key", map[string]any{"m": test.value})
					return err
				},
				"UpdateState": func(service *sessiond.Service, s session.Session) error {
					_, err := service.UpdateState(t.Context(), sessiond.Scope(sessiond.KeyOf(s)), sessiond.Delta{Set: map[string]any{"key": test.value}})
					return err
				},
				"Create": func(service *sessiond.Service, s session.Session) error {
					if err := service.DeleteSession(t.Context(), sessiond.KeyOf(s)); err != nil {
						return err
					}
					request := &session.CreateRequest{AppName: app, UserID: user, SessionID: s.ID(), State: map[string]any{"key": test.value}}
					_, err := service.Create(t.Context(), request)
					return err
				},
			} {
				var log bytes.Buffer
				service := connect(t, server, sessiond.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
				s := create(t, service, name+write, nil)
				if err := call(service, s); err != nil {
					t.Errorf("%s: %v", write, err)
					continue
				}
				want := test.want
				switch write {
				case "AppendToList":
					want = []any{want}
				case "Merge":
					want = map[string]any{"m": want}
				}
				if diff := cmp.Diff(want, stateOf(get(t, service, name+write))["key"]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", write, diff)
				}
				if warnings := strings.Count(log.String(), `"keys":["key"]`); warnings != map[bool]int{true: 1}[test.warns] {
					t.Errorf("%s has logged %s", write, &log)
				}
			}
		})
	}
}

// TestMendedBody keeps the answer of a model that ends in half an emoji, also in state by an output key.
func TestMendedBody(t *testing.T) {
	var log bytes.Buffer
	service := inMemory(t, sessiond.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
	s := create(t, service, "s", nil)
	cut := "half an emoji \xed\xa0\xbd"
	event := textEvent(t, cut)
	event.CustomMetadata = map[string]any{"raw": json.RawMessage(`"\ud83d"`)}
	event.Actions.StateDelta = map[string]any{"answer": cut}
	appendTo(t, service, s, event)
	want := strings.ToValidUTF8(cut, "") + strings.Repeat("\ufffd", 3)
	found := get(t, service, "s")
	stored := found.Events().At(0)
	if got := stored.Content.Parts[0].Text; got != want || stateOf(found)["answer"] != want || stored.CustomMetadata["raw"] != "\ufffd" {
		t.Errorf("the event has %q, %v, the state %v", got, stored.CustomMetadata, stateOf(found))
	}
	if strings.Count(log.String(), "\n") != 2 || !strings.Contains(log.String(), `"keys":["answer"]`) ||
		!strings.Contains(log.String(), `event's body`) || strings.Count(log.String(), event.ID) != 2 {
		t.Errorf("the log is %s", &log)
	}
	log.Reset()
	whole := session.NewEvent(t.Context(), "inv")
	whole.LLMResponse = model.LLMResponse{Content: genai.NewContentFromText("\U0001f600 \ufffd", "model")}
	appendTo(t, service, s, whole)
	if log.Len() > 0 {
		t.Errorf("the log of a good event is %s", &log)
	}
}
