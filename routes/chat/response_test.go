package chat

import (
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"amplifier-agent/codec"
)

// writes is a connection that notes what is written to it at once.
type writes struct {
	net.Conn
	list []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.list = append(w.list, string(p))
	return len(p), nil
}

func (*writes) SetWriteDeadline(time.Time) error { return nil }

func (*writes) Close() error { return nil }

// TestOneWriteAFrame: each frame is one chunk in one write, however long it is, the first one behind the header. The last one brings
// the end of the body.
func TestOneWriteAFrame(t *testing.T) {
	frames := []string{"first", "x", strings.Repeat("y", 100_000), "last " + codec.SSEDone}
	for name, plain := range map[string]bool{"chunks": false, "no chunks": true} {
		conn := new(writes)
		r := &response{conn: conn, plain: plain, out: []byte("header:")}
		for _, f := range frames {
			if err := r.write([]byte(f)); err != nil {
				t.Fatal(err)
			}
			if cap(r.out) > keepFrameBytes {
				t.Errorf("%s: %d bytes are held", name, cap(r.out))
			}
		}
		if len(conn.list) != len(frames) {
			t.Fatalf("%s: %d writes", name, len(conn.list))
		}
		got := strings.Join(conn.list, "")
		body, ok := strings.CutPrefix(got, "header:")
		if !plain {
			b, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(body)))
			if err != nil || !strings.HasSuffix(body, "\r\n0\r\n\r\n") {
				t.Errorf("%s: %v, ends in %.40q", name, err, body[len(body)-20:])
			}
			body = string(b)
		}
		if !ok || body != strings.Join(frames, "") {
			t.Errorf("%s: got %.100q", name, got)
		}
	}
}

// TestEndWithoutMark: a body that does not say that it is through is ended by close.
func TestEndWithoutMark(t *testing.T) {
	conn := new(writes)
	r := &response{conn: conn}
	if err := errors.Join(r.write([]byte("an error")), r.close()); err != nil || strings.Join(conn.list, "") != "8\r\nan error\r\n0\r\n\r\n" {
		t.Errorf("%q, %v", conn.list, err)
	}
}
