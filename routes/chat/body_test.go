package chat

import (
	"bytes"
	"io"
	"net"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
	"time"
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

// TestOneWriteAFrame: each frame behind the first, which the header goes out with, is one chunk in one write, however long it is.
func TestOneWriteAFrame(t *testing.T) {
	frames := []string{"first", "x", strings.Repeat("y", 100_000), "last"}
	for name, plain := range map[string]bool{"chunks": false, "no chunks": true} {
		left := slices.Clone(frames[1:])
		conn, through := new(writes), new(bytes.Buffer)
		b := &body{frame: []byte(frames[0]), conn: conn, plain: plain, next: func() ([]byte, error, bool) {
			if len(left) == 0 {
				return nil, nil, false
			}
			f := left[0]
			left = left[1:]
			return []byte(f), nil, true
		}}
		n, err := b.WriteTo(through)
		if err != nil || n != int64(len(strings.Join(frames, ""))) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if plain {
			if through.String() != strings.Join(frames, "") || len(conn.list) != 0 {
				t.Errorf("%s: %d writes past the server", name, len(conn.list))
			}
			continue
		}
		if through.String() != frames[0] || len(conn.list) != len(frames)-1 {
			t.Fatalf("%s: %q through the server, %d writes past it", name, through.String(), len(conn.list))
		}
		for i, w := range conn.list {
			if got, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(w + "0\r\n\r\n"))); err != nil || string(got) != frames[i+1] {
				t.Errorf("%s: write %d holds %.40q, %v", name, i, got, err)
			}
		}
		if cap(b.chunk) > keepFrameBytes {
			t.Errorf("%d bytes are held", cap(b.chunk))
		}
	}
}
