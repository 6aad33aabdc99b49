package sessiond_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

var (
	missingID       = sessiond.ByID("none")
	missingSequence = sessiond.BySequence(9)
)

// getEventsCases are reads of a session with the events e1 to e4 and the marker of a rewind.
var getEventsCases = map[string]struct {
	refs    []sessiond.EventRef
	found   []int64
	missing []sessiond.EventRef
}{
	"mixed": {
		refs: []sessiond.EventRef{
			sessiond.ByID("e4"), missingSequence, sessiond.BySequence(2), missingID, sessiond.ByID("e1"), sessiond.BySequence(2),
			sessiond.BySequence(5), sessiond.BySequence(3), sessiond.ByID("e2"), missingSequence,
		},
		found:   []int64{4, 2, 1, 2, 5, 3, 2},
		missing: []sessiond.EventRef{missingSequence, missingID, missingSequence},
	},
	"more than one request may name": {
		refs:    slices.Repeat([]sessiond.EventRef{missingID, sessiond.BySequence(1)}, 1200),
		found:   slices.Repeat([]int64{1}, 1200),
		missing: slices.Repeat([]sessiond.EventRef{missingID}, 1200),
	},
	"none": {},
}

func TestGetEvents(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			service := connect(t, startServer(t, store.uri))
			ctx := t.Context()
			s := create(t, service, "s", nil)
			for n := 1; n <= 4; n++ {
				event := textEvent(t, fmt.Sprint(n))
				event.ID = fmt.Sprint("e", n)
				appendTo(t, service, s, event)
			}
			if _, err := service.Rewind(ctx, sessionKey, 2); err != nil {
				t.Fatal(err)
			}
			listed := map[int64]sessiond.StoredEvent{}
			for event, err := range service.ListEvents(ctx, sessionKey, sessiond.EventsQuery{IncludeRewound: true}) {
				if err != nil {
					t.Fatal(err)
				}
				listed[event.Sequence] = event
			}
			for name, test := range getEventsCases {
				found, missing, err := service.GetEvents(ctx, sessionKey, test.refs...)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var want []sessiond.StoredEvent
				for _, sequence := range test.found {
					want = append(want, listed[sequence])
				}
				if diff := cmp.Diff(want, found); diff != "" {
					t.Errorf("%s: events (-want +got):\n%s", name, diff)
				}
				if diff := cmp.Diff(test.missing, missing); diff != "" {
					t.Errorf("%s: missing (-want +got):\n%s", name, diff)
				}
			}
			if !listed[4].Rewound || listed[2].Rewound {
				t.Errorf("the rewind hid %+v", listed)
			}
			nowhere := sessiond.Key{AppName: app, UserID: user, SessionID: "no"}
			if _, _, err := service.GetEvents(ctx, nowhere, sessiond.BySequence(1)); !errors.Is(err, sessiond.ErrNotFound) {
				t.Errorf("GetEvents() of a missing session = %v", err)
			}
			for _, refused := range []sessiond.EventRef{sessiond.ByID(""), sessiond.BySequence(0), sessiond.BySequence(-1)} {
				if _, _, err := service.GetEvents(ctx, sessionKey, refused); !errors.Is(err, sessiond.ErrInvalid) {
					t.Errorf("GetEvents(%v) = %v", refused, err)
				}
			}
		})
	}
}

func TestGetEventsOfSeveralPages(t *testing.T) {
	service := inMemory(t)
	s := create(t, service, "s", nil)
	for n := 1; n <= 6; n++ {
		event := textEvent(t, strings.Repeat("x", 900_000))
		event.ID = fmt.Sprint("e", n)
		appendTo(t, service, s, event)
	}
	found, missing, err := service.GetEvents(t.Context(), sessionKey,
		sessiond.BySequence(6), sessiond.ByID("none"), sessiond.ByID("e2"), sessiond.BySequence(4), sessiond.BySequence(1),
		sessiond.ByID("e3"), sessiond.BySequence(8), sessiond.ByID("e5"), sessiond.BySequence(6))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, event := range found {
		order = append(order, event.Event.ID)
		if text := event.Event.Content.Parts[0].Text; len(text) != 900_000 {
			t.Errorf("%s has %d bytes", event.Event.ID, len(text))
		}
	}
	if diff := cmp.Diff([]string{"e6", "e2", "e4", "e1", "e3", "e5", "e6"}, order); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sessiond.EventRef{sessiond.ByID("none"), sessiond.BySequence(8)}, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}
