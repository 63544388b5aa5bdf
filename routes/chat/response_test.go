package chat

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
)

// writes is a connection that notes what is written to it at once.
type writes struct {
	net.Conn
	list   []string
	broken error
	muted  bool
	closed bool
}

func (w *writes) Write(p []byte) (int, error) {
	w.list = append(w.list, string(p))
	return len(p), w.broken
}

func (*writes) SetWriteDeadline(time.Time) error { return nil }
func (w *writes) Close() error                   { w.closed = true; return nil }
func (w *writes) Mute()                          { w.muted = true }
func (*writes) Closing() bool                    { return false }

// answerOn has frames written to c.
func answerOn(c net.Conn, frames ...string) error {
	var req fasthttp.Request
	var ctx fasthttp.RequestCtx
	ctx.Init2(c, nil, false)
	req.CopyTo(&ctx.Request)
	h := &Handler{Log: slog.New(slog.DiscardHandler)}
	return h.stream(&ctx, new(pipeline.Turn), func(yield func([]byte, error) bool) {
		for _, f := range frames {
			if !yield([]byte(f), nil) {
				return
			}
		}
	})
}

// TestOneWriteAFrame: each frame is written as it is, in one piece, however long it is, the first one behind the header. What the server
// would answer itself is dropped.
func TestOneWriteAFrame(t *testing.T) {
	frames := []string{"5\r\nfirst\r\n", "1\r\nx\r\n", "186a0\r\n" + strings.Repeat("y", 100_000) + "\r\n", "4\r\nlast\r\n0\r\n\r\n"}
	c := new(writes)
	if err := answerOn(c, frames...); err != nil || !c.muted || c.closed {
		t.Fatalf("muted %v, closed %v, %v", c.muted, c.closed, err)
	}
	if len(c.list) != len(frames) || !strings.HasSuffix(c.list[0], "\r\n\r\n"+frames[0]) || !slices.Equal(c.list[1:], frames[1:]) {
		t.Errorf("%d writes, the first is %q", len(c.list), c.list[0])
	}
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(strings.Join(c.list, ""))), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) != 100_010 || resp.Close {
		t.Errorf("%d bytes, close %v, %v", len(b), resp.Close, err)
	}
}

// TestWriteFails: a client that cannot be written to has gone, and its connection is of no more use.
func TestWriteFails(t *testing.T) {
	c := &writes{broken: errors.New("broken")}
	if err := answerOn(c, "a", "b"); !errors.Is(err, pipeline.ErrClientGone) || len(c.list) != 1 || !c.closed {
		t.Errorf("%d writes, closed %v, %v", len(c.list), c.closed, err)
	}
}
