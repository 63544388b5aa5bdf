package chat_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/stages"
	"amplifier-agent/upstream/simulator"
)

// rude is a provider that panics before it has a stream to give.
type rude struct{}

func (rude) Name() string { return "rude" }
func (rude) Models(context.Context) ([]pipeline.Model, error) {
	return []pipeline.Model{{ID: model}}, nil
}
func (rude) Stream(context.Context, *pipeline.Round) pipeline.Stream { panic("rude") }

// TestEveryTurnEnds: whatever becomes of a turn, what it has taken is given up.
func TestEveryTurnEnds(t *testing.T) {
	a := new(accounts)
	s := serve(t, setup{extra: []pipeline.Stage{stages.Account(a)}}, rude{})
	for _, stream := range []bool{true, false} {
		resp, b := s.post(t, ask(stream, "hi"))
		if resp.StatusCode != http.StatusInternalServerError || strings.Contains(string(b), "rude") {
			t.Errorf("status %d: %s", resp.StatusCode, b)
		}
		if row := a.next(t); row.Status == "" {
			t.Errorf("recorded as %+v", row)
		}
	}
}

// TestRefusedRequestsAreCounted: what never became a turn is told of as well.
func TestRefusedRequestsAreCounted(t *testing.T) {
	var codes []pipeline.Code
	s := start(t, setup{rejected: func(c pipeline.Code) { codes = append(codes, c) }})
	s.post(t, "{}", "Content-Encoding", "compress")
	s.post(t, "not gzip", "Content-Encoding", "gzip")
	if len(codes) != 2 || codes[0] != pipeline.CodeUnsupportedCoding || codes[1] != pipeline.CodeInvalidRequest {
		t.Errorf("told of %v", codes)
	}
}

// TestOldHTTP: a client of HTTP/1.0 gets the stream as it comes, without chunks, and its end with that of the connection.
func TestOldHTTP(t *testing.T) {
	s := start(t, setup{sim: simulator.Options{}})
	c := s.dial(t)
	raw(c, "HTTP/1.0", ask(true, "Count slowly to 20"))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.TransferEncoding) > 0 || resp.ContentLength >= 0 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%+v", resp)
	}
	first := make([]byte, 10)
	if _, err := io.ReadFull(resp.Body, first); err != nil || s.sim.Active() != 1 {
		t.Errorf("nothing comes while the upstream sends: error %v, %d exchanges", err, s.sim.Active())
	}
	rest, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := chattest.ParseSSE(append(first, rest...)); err != nil || !strings.Contains(a.Content, "20") {
		t.Errorf("answer %+v, error %v", a, err)
	}
}

// TestOldClientLeaves: its turn ends, too.
func TestOldClientLeaves(t *testing.T) {
	s := start(t, setup{})
	c := s.dial(t)
	raw(c, "HTTP/1.0", ask(true, "Count slowly to 2000"))
	if _, err := io.ReadFull(c, make([]byte, 200)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	eventually(t, "the upstream is left", func() bool { return s.sim.Active() == 0 })
}

// TestClientLeavesWhileAStageWaits: a client that goes before the upstream was asked is noticed as well.
func TestClientLeavesWhileAStageWaits(t *testing.T) {
	waiting, ended := make(chan struct{}), make(chan error, 1)
	slow := pipeline.Stage{Name: "slow", Request: func(ctx context.Context, _ *pipeline.Turn) error {
		close(waiting)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}}
	s := start(t, setup{extra: []pipeline.Stage{slow}, waits: true})
	c := s.dial(t)
	raw(c, "HTTP/1.1", ask(true, "hi"))
	<-waiting
	c.Close()
	if err := <-ended; err != pipeline.ErrClientGone {
		t.Errorf("the stage ended with %v", err)
	}
}
