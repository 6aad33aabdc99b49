// Package sessiond stores the sessions of agents that are built with Google's Agent Development Kit (ADK) in sessiond.
//
//	sessions := sessiond.MustNew("127.0.0.1:50051")
//	r, err := runner.New(runner.Config{AppName: "my_app", Agent: agent, SessionService: sessions})
//
// Layout, from the top down:
//
//   - service.go implements the ADK's session.Service; state_service.go, history.go and watch.go have the extensions.
//   - reading.go reads sessions, page by page.
//   - append.go appends an event and updates the caller's session; precondition.go detects concurrent writers.
//   - session.go is the session object, whose values state.go compares with those of the server.
//   - events.go converts events, canonical.go their bodies; operations.go converts deltas.
//   - client.go calls the server, retry.go has delays, errors.go the errors; address.go parses addresses.
//   - credentials.go has TLS and tokens from files, trace.go sends the trace context.
//
// The generated stubs are in the package sessiondv1. A program must not contain another copy of them: protobuf registers
// the names of the contract once per process.
package sessiond
