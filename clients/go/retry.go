package sessiond

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// RetryPolicy says how often a call is sent, and how long to wait between attempts.
//
// Delays double from FirstDelay up to MaxDelay. Each is reduced at random by up to one half, so that the clients of a
// restarted server do not return all at once. The deadline of the call ends the retries. Attempts can end them earlier.
type RetryPolicy struct {
	// Attempts is the maximum number of attempts, including the first one. 0 means no maximum.
	Attempts   int
	FirstDelay time.Duration
	MaxDelay   time.Duration
}

// DefaultRetryPolicy retries until the deadline of the call, with delays from 50 ms up to 1 s.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{FirstDelay: 50 * time.Millisecond, MaxDelay: time.Second}
}

func (p RetryPolicy) validate() error {
	if p.Attempts < 0 {
		return fmt.Errorf("sessiond: the retry policy has %d attempts; it must not be negative", p.Attempts)
	}
	if p.FirstDelay < 0 || p.MaxDelay < 0 {
		return fmt.Errorf("sessiond: the delays %v and %v of the retry policy must not be negative", p.FirstDelay, p.MaxDelay)
	}
	// Without delays, a call would spin until its deadline.
	if p.Attempts == 0 && (p.FirstDelay == 0 || p.MaxDelay == 0) {
		return errors.New("sessiond: the retry policy has neither a maximum of attempts nor delays; set one of them")
	}
	return nil
}

// exhausted reports whether a number of attempts (1 or more) is the maximum.
func (p RetryPolicy) exhausted(attempts int) bool {
	return p.Attempts > 0 && attempts >= p.Attempts
}

// delay returns the delay after a number of failed attempts (1 or more), at least the one that the server asked for.
func (p RetryPolicy) delay(failed int, asked time.Duration) time.Duration {
	longest := p.FirstDelay
	for range failed - 1 {
		if longest >= p.MaxDelay {
			break
		}
		longest *= 2
	}
	longest = min(longest, p.MaxDelay)
	half := longest / 2
	return max(half+rand.N(longest-half+1), asked)
}
