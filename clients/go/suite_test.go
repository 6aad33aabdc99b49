package sessiond_test

import (
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"
)

// TestADKSuite runs the suite that the ADK publishes for session services, on both stores.
func TestADKSuite(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			options := sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}
			sessiontestsuite.RunServiceTests(t, options, func(t *testing.T) session.Service {
				return connect(t, startServer(t, store.uri))
			})
		})
	}
}
