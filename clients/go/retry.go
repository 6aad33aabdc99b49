package sessiond

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// RetryPolicy says how often a call is sent, and how long to wait between attempts.
//
// Delays double from FirstDelay up to MaxDelay. Each is reduced at random by up to one half, so that the clients of a
// restarted server do not return all at once. The deadline of the call also ends the retries.
type RetryPolicy struct {
	Attempts   int
	FirstDelay time.Duration
	MaxDelay   time.Duration
}

// DefaultRetryPolicy bridges an outage of about five seconds.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Attempts: 10, FirstDelay: 50 * time.Millisecond, MaxDelay: time.Second}
}

func (p RetryPolicy) validate() error {
	if p.Attempts < 1 {
		return fmt.Errorf("sessiond: the retry policy has %d attempts; it must have at least 1", p.Attempts)
	}
	if p.FirstDelay < 0 || p.MaxDelay < 0 {
		return fmt.Errorf("sessiond: the delays %v and %v of the retry policy must not be negative", p.FirstDelay, p.MaxDelay)
	}
	return nil
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
