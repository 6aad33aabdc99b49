package sessiond

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kinds of errors, for errors.Is. The ADK has no sentinels of its own.
var (
	// ErrNotFound: the session does not exist.
	ErrNotFound = errors.New("session not found")
	// ErrAlreadyExists: a session id, or the id of an event with other content, is taken.
	ErrAlreadyExists = errors.New("already exists")
	// ErrStale: with [Conflict] or [Refuse], another writer was first; in every mode, the session was deleted and
	// created anew under its id.
	ErrStale = errors.New("stale session error")
	// ErrInvalid: the request breaks a rule or a limit of the server.
	ErrInvalid = errors.New("invalid request")
	// ErrUnavailable: the server is unavailable, and the retries are used up.
	ErrUnavailable = errors.New("sessiond is unavailable")
	// ErrUnauthenticated: the server does not accept the token or the certificate, or misses it.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrPermissionDenied: the server knows the caller, who may not do this.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrClosed: the service is closed.
	ErrClosed = errors.New("the sessiond service is closed")
)

const (
	errorDomain = "sessiond"
	// reasonReplaced: another life of the session id is there than the one that was meant.
	reasonReplaced = "SESSION_REPLACED"
)

// Error is a failed call. The chain of every error of a failed call has one, for errors.As.
type Error struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Reason is the server's reason, such as STATE_TOO_LARGE; "" if the transport failed, not the server.
	Reason  string
	Message string
	// Metadata has the variable parts of the message as texts.
	Metadata map[string]string
	// Violations are the faults of an invalid request.
	Violations []Violation
	// RetryAfter is the delay that the server asks for, or 0.
	RetryAfter time.Duration
	// Attempts is how often the call was sent.
	Attempts int
	// MayBeApplied tells that this or an earlier attempt may have been applied although the call failed.
	MayBeApplied bool

	status *status.Status
	// cause is the context's error or ErrClosed, or nil.
	cause error
}

// Violation is one fault of a request.
type Violation struct {
	// Field is the path of the field, such as `event.event_id`.
	Field       string
	Description string
}

// Error returns the message and the reason.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Message)
	// The server's message describes the first violation only.
	for _, violation := range e.Violations[min(1, len(e.Violations)):] {
		fmt.Fprintf(&text, "; %s: %s", violation.Field, violation.Description)
	}
	if e.Reason != "" {
		fmt.Fprintf(&text, " [%s]", e.Reason)
	} else {
		fmt.Fprintf(&text, " [%s]", e.Code)
	}
	return text.String()
}

// GRPCStatus returns the status with its details, for status.FromError.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Unwrap returns the error of the context or [ErrClosed] if it ended the call, else nil.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Reason == "SESSION_NOT_FOUND"
	case ErrAlreadyExists:
		return e.Code == codes.AlreadyExists
	case ErrStale:
		return e.Reason == "SEQUENCE_CONFLICT" || e.Reason == "KEY_CONFLICT" || e.Reason == reasonReplaced
	case ErrInvalid:
		return e.Code == codes.InvalidArgument
	case ErrUnavailable:
		return e.Code == codes.Unavailable
	case ErrUnauthenticated:
		return e.Code == codes.Unauthenticated
	case ErrPermissionDenied:
		return e.Code == codes.PermissionDenied
	}
	return false
}

// Retryable tells whether the call may be sent again: "yes", "same_id" (only with the same event or request id) or "no".
func (e *Error) Retryable() string {
	if e.Reason == "" {
		// A status of the transport. If the connection was lost, the call may have been applied.
		if e.Code == codes.Unavailable {
			return "same_id"
		}
		return "no"
	}
	// A value that a newer server adds must not cause retries.
	if value := e.Metadata["retryable"]; value == "yes" || value == "same_id" {
		return value
	}
	return "no"
}

// outcomeUnknown tells whether this attempt may have been applied.
func (e *Error) outcomeUnknown() bool {
	if e.Reason != "" {
		return e.Retryable() == "same_id"
	}
	switch e.Code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Internal:
		return true
	}
	return false
}

// newError reads the status of a failed call with its details.
func newError(err error) *Error {
	found := status.Convert(err)
	result := &Error{Code: found.Code(), Message: found.Message(), status: found}
	for _, detail := range found.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == errorDomain {
				result.Reason, result.Metadata = detail.Reason, detail.Metadata
			}
		case *errdetails.RetryInfo:
			result.RetryAfter = detail.RetryDelay.AsDuration()
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations {
				result.Violations = append(result.Violations, Violation{violation.Field, violation.Description})
			}
		}
	}
	return result
}

// closedError is the error of a call that Close has ended or refused.
func closedError() *Error {
	made := status.New(codes.Canceled, ErrClosed.Error())
	return &Error{Code: made.Code(), Message: made.Message(), status: made, cause: ErrClosed}
}

// replacedError is the error of a read that has found another life of a session than the one that was meant.
func replacedError(id string) *Error {
	made := status.New(codes.Aborted, fmt.Sprintf("session %q was deleted and created anew", id))
	return &Error{
		Code: made.Code(), Reason: reasonReplaced, Message: made.Message(), status: made,
		Metadata: map[string]string{"session_id": id, "retryable": "no"},
	}
}

// endedBy adds what has ended the call from this side, if anything has.
func (e *Error) endedBy(ctx context.Context) {
	if e.cause == nil && (e.Code == codes.Canceled || e.Code == codes.DeadlineExceeded) && e.Reason == "" {
		e.cause = ctx.Err()
		if e.cause == nil && e.Code == codes.DeadlineExceeded {
			// gRPC may notice the deadline a moment before the context does.
			e.cause = context.DeadlineExceeded
		}
	}
}

// StateValueError is the error of a value that has no JSON form. Nothing was sent.
type StateValueError struct {
	// Key is the key of the value, with its prefix.
	Key string
	Err error
}

// Error names the key.
func (e *StateValueError) Error() string {
	return fmt.Sprintf("the value of state key %q cannot be stored: %v", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *StateValueError) Unwrap() error { return e.Err }
