package sessiond_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

func TestDeadlineEndsRetries(t *testing.T) {
	server := startServer(t, "memory:")
	p := startProxy(t, server.Address, &proxy{before: firstCalls("GetSession", 1<<30, errLost)})
	// On a busy machine a short time may end in the first attempt.
	for timeout := 300 * time.Millisecond; ; timeout *= 2 {
		service := dial(t, p.address, sessiond.WithTimeout(timeout))
		_, err := service.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "s"})
		if !errors.Is(err, sessiond.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get() = %v", err)
		}
		failure, _ := errors.AsType[*sessiond.Error](err)
		if failure == nil || !failure.MayBeApplied {
			t.Fatalf("Get() = %+v", failure)
		}
		if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
			t.Errorf("the status is %v", code)
		}
		if failure.Attempts > 1 {
			return
		}
		if timeout > time.Minute {
			t.Fatalf("Get() = %+v, want several attempts", failure)
		}
	}
}

func TestRetriesGoOnUntilTheServerIsBack(t *testing.T) {
	server := startServer(t, "memory:")
	starting := refusal(codes.Unavailable, "STARTING", "yes")
	p := startProxy(t, server.Address, &proxy{before: firstCalls("CreateSession", 30, starting)})
	policy := sessiond.DefaultRetryPolicy()
	policy.FirstDelay, policy.MaxDelay = time.Millisecond, time.Millisecond
	service := dial(t, p.address, sessiond.WithRetryPolicy(policy), sessiond.WithTimeout(time.Minute))
	create(t, service, "s", nil)
	if sent := len(p.sent("CreateSession")); sent != 31 {
		t.Errorf("CreateSession was sent %d times, want 31", sent)
	}
}

func TestAttemptsEndRetries(t *testing.T) {
	server := startServer(t, "memory:")
	starting := refusal(codes.Unavailable, "STARTING", "yes")
	p := startProxy(t, server.Address, &proxy{before: firstCalls("GetSession", 1<<30, starting)})
	service := dial(t, p.address, sessiond.WithRetryPolicy(sessiond.RetryPolicy{Attempts: 4}))
	_, err := service.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "s"})
	failure, _ := errors.AsType[*sessiond.Error](err)
	if failure == nil || failure.Attempts != 4 || failure.MayBeApplied || failure.Reason != "STARTING" {
		t.Errorf("Get() = %+v, want 4 attempts, none of them applied", failure)
	}
	// A delay beyond the deadline ends them at once.
	later := refusal(codes.ResourceExhausted, "OVERLOADED", "yes", durationpb.New(time.Hour))
	p = startProxy(t, server.Address, &proxy{before: firstCalls("GetSession", 1<<30, later)})
	_, err = dial(t, p.address).Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "s"})
	failure, _ = errors.AsType[*sessiond.Error](err)
	if failure == nil || failure.Attempts != 1 || failure.RetryAfter != time.Hour {
		t.Errorf("Get() = %+v, want one attempt", failure)
	}
}

// TestEarlierAttemptMayBeApplied keeps in mind that the first attempt was lost, although the second was refused.
func TestEarlierAttemptMayBeApplied(t *testing.T) {
	server := startServer(t, "memory:")
	p := startProxy(t, server.Address, &proxy{before: func(method string, call int) error {
		switch {
		case method != "AppendEvent":
			return nil
		case call == 1:
			return errLost
		}
		return refusal(codes.Internal, "INTERNAL", "no")
	}})
	service := dial(t, p.address)
	err := service.AppendEvent(t.Context(), create(t, service, "s", nil), textEvent(t, "x"))
	failure, _ := errors.AsType[*sessiond.Error](err)
	if failure == nil || failure.Attempts != 2 || !failure.MayBeApplied || failure.Reason != "INTERNAL" {
		t.Errorf("AppendEvent() = %+v", failure)
	}
}
