package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
)

// TestGetEnds: when there is no more time, that is all that is said, wherever the exchange was. There is no turn that could have been
// cancelled.
func TestGetEnds(t *testing.T) {
	cause := errors.New("no answer within a moment")
	for _, begun := range []string{"", "HTTP/1.1 200 OK\r\nContent-", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"a\":", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := ln.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			buf := make([]byte, 4<<10)
			if _, err := c.Read(buf); err != nil {
				t.Error(err)
			}
			_, _ = c.Write([]byte(begun))
			cancel(cause)
			_, _ = c.Read(buf) // until the client has gone
		}()
		tr, err := NewTransport(TransportConfig{BaseURL: "http://" + ln.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		var v any
		err = tr.Get(ctx, &Call{Method: "GET", Path: "/"}, 100, &v, func(*Reply) error { return errors.New("refused") })
		if !errors.Is(err, cause) || fmt.Sprint(err) != cause.Error() {
			t.Errorf("after %q: %v", begun, err)
		}
		<-done
		tr.Close()
		ln.Close()
	}
}

// TestGetFails: a failure of another kind keeps its words.
func TestGetFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	tr, err := NewTransport(TransportConfig{BaseURL: "http://" + ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var v any
	if err := tr.Get(t.Context(), &Call{Method: "GET", Path: "/"}, 100, &v, nil); err == nil || !errors.As(err, new(*net.OpError)) {
		t.Errorf("%v", err)
	}
}
