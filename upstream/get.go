package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"amplifier-agent/codec"
)

// Get runs an exchange whose answer is one JSON document of at most limit bytes, and decodes it into v. It waits for as long as ctx
// allows; then its error is the cause for which ctx has ended, and nothing around it. An answer whose status is not 200 goes to
// refuse, which makes an error of it.
func (t *Transport) Get(ctx context.Context, call *Call, limit int64, v any, refuse func(*Reply) error) error {
	r, err := t.Open(ctx, call, patience{})
	if err != nil {
		return ended(ctx, err)
	}
	done := false
	defer func() { r.Close(done) }()
	if r.Status != 200 {
		return refuse(r)
	}
	if err := codec.Read(r.Body, limit, v); err != nil {
		if errors.Is(err, codec.ErrSyntax) { // most often a page
			err = fmt.Errorf("the upstream's answer is %w: is its base URL right?", err)
		}
		return ended(ctx, err)
	}
	done = true
	return nil
}

// ended is err, unless it only shows that ctx has ended: there is no turn here that could have been cancelled.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// patience is a Watcher that never has enough.
type patience struct{}

func (patience) Reading() bool              { return true }
func (patience) Silent(*time.Duration) bool { return true }
