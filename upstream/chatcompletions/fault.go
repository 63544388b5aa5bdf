package chatcompletions

import (
	"strconv"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// isFault reports whether a line of an answer is an error. Some say so in object, and stand in place of one.
func (c *chunk) isFault() bool { return present(c.err) || string(c.object) == "error" }

// present tells an error from what says that there is none.
func present(raw []byte) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}":
		return false
	}
	return true
}

// streamFault makes an error of one that came with status 200: a string or an object, or a message beside it. What kind it is
// stands in a number if there is one, else in words.
func (d *Decoder) streamFault(raw []byte, message codec.Text) *pipeline.Error {
	f := upstream.Fault{Message: message.String()}
	if present(raw) {
		var s codec.Scanner
		s.Reset(raw)
		f.Read(&s)
	}
	if n, err := strconv.Atoi(f.Code); f.Status == 0 && err == nil && n >= 400 && n <= 599 {
		f.Status = n
	}
	if f.Status == 0 {
		f.Status = statusOf(f.Kind + " " + f.Code)
	}
	return classify(f.Err(d.mask), &f, d.judge)
}

// statusOf is the status with which an error of these words would have come before the stream, 0 if they say nothing.
func statusOf(words string) int {
	for _, row := range []struct {
		word   string
		status int
	}{
		{"rate_limit", 429}, {"insufficient_quota", 429}, {"authentication", 401}, {"invalid_api_key", 401}, {"permission", 403},
		{"overloaded", 529}, {"invalid_request", 400}, {"context_length", 400}, {"content_filter", 400},
	} {
		if strings.Contains(words, row.word) {
			return row.status
		}
	}
	return 0
}

// classify adds what upstream.Fault does not know: a 429 for an empty account is nothing to wait for. Who judges, which may be nil,
// has the last word.
func classify(e *pipeline.Error, f *upstream.Fault, judge func(*pipeline.Error, *upstream.Fault)) *pipeline.Error {
	if f.Says("insufficient quota") {
		e.Code, e.Retry = pipeline.CodePlan, false
	}
	if judge != nil {
		judge(e, f)
	}
	return e
}

// refusal makes an error of an answer whose status is not 200.
func (p *Provider) refusal(r *upstream.Reply) error {
	e, f := upstream.Refusal(r, p.mask)
	return classify(e, f, p.cfg.Judge)
}
