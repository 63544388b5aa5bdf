//go:build unix

package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// sentry is a way to hear that nothing has come on a connection for some time. What watch returns is read instead of the connection;
// silent is called on the goroutine that reads, and false ends the read. stop, which may be called once, comes before the close.
type sentry struct {
	name  string
	watch func(c net.Conn, every time.Duration, silent func() bool) (r io.Reader, stop func())
}

func sentries() []sentry {
	return []sentry{
		{"none", func(c net.Conn, _ time.Duration, _ func() bool) (io.Reader, func()) { return c, func() {} }},
		{"deadline", func(c net.Conn, every time.Duration, silent func() bool) (io.Reader, func()) {
			return &deadlined{Conn: c, every: every, spare: every * 3 / 4, silent: silent}, func() {}
		}},
		{"deadline-each", func(c net.Conn, every time.Duration, silent func() bool) (io.Reader, func()) {
			return &deadlined{Conn: c, every: every, spare: every, silent: silent}, func() {}
		}},
		{"timer", func(c net.Conn, every time.Duration, silent func() bool) (io.Reader, func()) {
			t := &timed{Conn: c, every: every, silent: silent}
			t.tick = time.AfterFunc(every, t.wake)
			return t, func() { t.tick.Stop() }
		}},
		{"goroutine", func(c net.Conn, every time.Duration, silent func() bool) (io.Reader, func()) {
			p := startPump(c, every, silent)
			return p, func() { close(p.gone) }
		}},
	}
}

// deadlined sets a deadline before a read unless spare of the last one is left. With three quarters it is what upstream does.
type deadlined struct {
	net.Conn
	every, spare time.Duration
	silent       func() bool
	until        time.Time
}

func (d *deadlined) Read(b []byte) (int, error) {
	now := time.Now()
	for {
		if d.until.Sub(now) < d.spare {
			d.until = now.Add(d.every)
			if err := d.SetReadDeadline(d.until); err != nil {
				return 0, err
			}
		}
		n, err := d.Conn.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !d.silent() {
			return n, err
		}
		now = time.Now()
	}
}

// timed resets a timer at each read, which wakes the reader by a deadline that has passed.
type timed struct {
	net.Conn
	every  time.Duration
	silent func() bool
	tick   *time.Timer
}

func (t *timed) wake() { _ = t.SetReadDeadline(time.Unix(1, 0)) }

func (t *timed) Read(b []byte) (int, error) {
	for {
		n, err := t.Conn.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.tick.Reset(t.every)
			return n, err
		}
		if !t.silent() {
			return n, err
		}
		if err := t.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
		t.tick.Reset(t.every)
	}
}

// call asks the source for path on a connection of its own.
func (s *source) call(path string) (net.Conn, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func TestSentriesHearOfSilence(t *testing.T) {
	s := startSource(t)
	for _, e := range sentries()[1:] {
		t.Run(e.name, func(t *testing.T) {
			c, err := s.call("/parked")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			heard := 0
			r, stop := e.watch(c, 5*time.Millisecond, func() bool {
				heard++
				return heard < 3
			})
			defer stop()
			if n, err := io.Copy(io.Discard, r); err == nil || n == 0 || heard != 3 {
				t.Fatalf("read %d bytes, heard of silence %d times: %v", n, heard, err)
			}
		})
	}
}

// BenchmarkSilence reads lines that come at a slow pace on many connections, on each of which half a second of silence is to be heard
// of. There is none. An operation is a line on each; its time is the gateway's pace.
func BenchmarkSilence(b *testing.B) {
	const streams = 200
	s := startSource(b)
	for _, e := range sentries() {
		b.Run(e.name, func(b *testing.B) {
			memory, goroutines := held()
			begun, start := sync.WaitGroup{}, make(chan struct{})
			begun.Add(streams)
			var done sync.WaitGroup
			for range streams {
				done.Go(func() {
					c, err := s.call("/slow")
					if err != nil {
						begun.Done()
						b.Error(err)
						return
					}
					defer c.Close()
					r, stop := e.watch(c, silence, func() bool { return true })
					defer stop()
					buf := make([]byte, 4<<10)
					read := func() bool { // the header, or a line
						_, err := r.Read(buf)
						if err != nil {
							b.Error(err)
						}
						return err == nil
					}
					ok := read()
					ok = ok && read()
					begun.Done()
					<-start
					for n := 0; ok && n < b.N; n++ {
						ok = read()
					}
				})
			}
			begun.Wait()
			after, afterGo := held()
			b.ResetTimer()
			before := cpu(b)
			close(start)
			done.Wait()
			b.StopTimer()
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N*streams), "cpu-ns/line")
			b.ReportMetric(float64(after-memory)/streams, "B/stream")
			b.ReportMetric(float64(afterGo-goroutines)/streams, "goroutines/stream")
		})
	}
}

// BenchmarkSilenceRead is one connection at full speed, where few reads have to wait and less of what is measured is wake-ups. An
// operation is a read of up to 4 KiB.
func BenchmarkSilenceRead(b *testing.B) {
	s := startSource(b)
	for _, e := range sentries() {
		b.Run(e.name, func(b *testing.B) {
			c, err := s.call("/lines")
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			r, stop := e.watch(c, silence, func() bool { return true })
			defer stop()
			buf := make([]byte, 4<<10)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				if _, err := r.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/read")
		})
	}
}
