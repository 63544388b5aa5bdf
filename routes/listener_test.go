package routes

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"amplifier-agent/stages"
)

// shaky is a listener whose first accepts fail as they do when file descriptors run out.
type shaky struct {
	net.Listener
	failures int
}

func (s *shaky) Accept() (net.Conn, error) {
	if s.failures > 0 {
		s.failures--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return s.Listener.Accept()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func TestAcceptOutlivesAShortage(t *testing.T) {
	l := track(&shaky{listen(t), 3}, slog.New(slog.DiscardHandler))
	defer l.Close()
	go func() {
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			c.Close()
		}
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if !l.drained(0) {
		t.Error("a closed connection counts as open")
	}
}

func TestCloseEndsAWaitingAccept(t *testing.T) {
	l := track(&shaky{listen(t), 1 << 30}, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		done <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// TestShutdownAtAnyMoment: before Serve, while it begins, and while nobody is there.
func TestShutdownAtAnyMoment(t *testing.T) {
	for i := range 200 {
		s := New(Config{Auth: stages.Auth("k"), Log: slog.New(slog.DiscardHandler)})
		done := make(chan error, 1)
		ln := listen(t)
		go func() { done <- s.Serve(ln) }()
		if i%2 == 0 {
			time.Sleep(time.Duration(i) * 10 * time.Microsecond) // any moment will do
		}
		if err := s.Shutdown(time.Minute); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Serve goes on")
		}
	}
}

// TestShutdownClosesHalfARequest: a connection that has not sent a whole request is closed at once.
func TestShutdownClosesHalfARequest(t *testing.T) {
	s := New(Config{Auth: stages.Auth("k"), Log: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	ln := listen(t)
	go func() { done <- s.Serve(ln) }()
	for _, sent := range []string{"", "GET /v1/mo", "POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
	}
	for s.http.GetOpenConnectionsCount() < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Shutdown(time.Hour); err != nil { // go test would give up before
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
