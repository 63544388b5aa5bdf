package pipeline_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"amplifier-agent/pipeline"
)

func TestAsError(t *testing.T) {
	own := &pipeline.Error{Code: pipeline.CodeRateLimit, Origin: pipeline.OriginUpstream, Message: "wait", Err: io.EOF}
	for name, err := range map[string]error{
		"itself":  own,
		"wrapped": fmt.Errorf("decode: %w", fmt.Errorf("turn: %w", own)),
		"joined":  errors.Join(io.ErrUnexpectedEOF, own),
	} {
		if got := pipeline.AsError(err); got != own {
			t.Errorf("%s: got %v", name, got)
		}
	}
	other := errors.New("password=secret")
	e := pipeline.AsError(other)
	if e.Code != pipeline.CodeInternal || e.Origin != pipeline.OriginInternal || e.Message != "internal error" || !errors.Is(e, other) {
		t.Errorf("got %+v", e)
	}
}

func TestError(t *testing.T) {
	e := &pipeline.Error{Message: "read the answer", Err: io.EOF}
	if e.Error() != "read the answer: EOF" || !errors.Is(e, io.EOF) {
		t.Errorf("got %v", e)
	}
	if e := (&pipeline.Error{Message: "wait"}); e.Error() != "wait" || e.Unwrap() != nil {
		t.Errorf("got %v", e)
	}
	if e := pipeline.Invalid("messages[2].role", "no such role"); e.Code != pipeline.CodeInvalidRequest || e.Origin != pipeline.OriginClient ||
		e.Param != "messages[2].role" || e.Error() != "no such role" {
		t.Errorf("got %+v", e)
	}
}
