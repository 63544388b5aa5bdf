//go:build unix

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/bench/metric"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
)

const (
	frameBytes  = 270 // of a frame, about what a text delta becomes
	readFrames  = 13  // that one read of the upstream becomes
	endOfFrame  = "\n\n\r\n"
	endOfAnswer = "0\r\n\r\n"
)

// responder is a way to write an answer of frames. All run in our server, with its settings.
type responder struct {
	name   string
	chunks bool // the frames that it is given are chunks
	answer func(ctx *fasthttp.RequestCtx, frames iter.Seq[[]byte])
}

func responders() []responder {
	return []responder{
		{"reader", false, func(ctx *fasthttp.RequestCtx, frames iter.Seq[[]byte]) { ctx.SetBodyStream(pull(frames), -1) }},
		{"write-to", false, func(ctx *fasthttp.RequestCtx, frames iter.Seq[[]byte]) { ctx.SetBodyStream(writerTo{pull(frames)}, -1) }},
		{"stream-writer", false, func(ctx *fasthttp.RequestCtx, frames iter.Seq[[]byte]) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for frame := range frames {
					if _, err := w.Write(frame); err != nil || w.Flush() != nil {
						return
					}
				}
			})
		}},
		{"connection", true, onConnection},
	}
}

// pulled is a body whose frames are asked for.
type pulled struct {
	next func() ([]byte, bool)
	stop func()
	rest []byte
}

func pull(frames iter.Seq[[]byte]) *pulled {
	next, stop := iter.Pull(frames)
	return &pulled{next: next, stop: stop}
}

func (p *pulled) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		var ok bool
		if p.rest, ok = p.next(); !ok {
			return 0, io.EOF
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *pulled) Close() error {
	p.stop()
	return nil
}

// writerTo is a body that hands over its frames as they are.
type writerTo struct{ *pulled }

// SupportsBodyWriteTo implements fasthttp.BodyWriterTo.
func (writerTo) SupportsBodyWriteTo() bool { return true }

// WriteTo implements fasthttp.BodyWriterTo.
func (p writerTo) WriteTo(w io.Writer) (n int64, err error) {
	for {
		frame, ok := p.next()
		if !ok {
			return n, nil
		}
		m, err := w.Write(frame)
		if n += int64(m); err != nil {
			return n, err
		}
	}
}

// onConnection is what routes/chat does.
func onConnection(ctx *fasthttp.RequestCtx, frames iter.Seq[[]byte]) {
	c, began := ctx.Conn().(chat.Conn), false
	for frame := range frames {
		if !began {
			began = true
			_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
			ctx.Response.Header.SetContentLength(-1)
			head := ctx.Response.Header.Header()
			frame = append(append(make([]byte, 0, len(head)+len(frame)), head...), frame...)
		}
		if _, err := c.Write(frame); err != nil {
			_ = c.Close()
			return
		}
	}
	_, _ = io.WriteString(c, endOfAnswer)
	ctx.Response.Header.SetContentLength(0)
	c.Mute()
}

// respond serves answers of one frame, or of several that go as one, each time script sends. It returns an address.
func respond(b *testing.B, r responder, frames int, script func(stream int, send func() bool)) string {
	b.Helper()
	frame := bytes.Repeat([]byte("data: "+strings.Repeat("x", frameBytes-len("data: \n\n"))+"\n\n"), frames)
	if r.chunks {
		frame = bytes.Repeat(chunkOf(frame[:frameBytes]), frames)
	}
	srv := routes.New(routes.Config{Log: wire.Log, Routes: []routes.Route{{Method: fasthttp.MethodPost, Path: "/", Prefix: true,
		Handle: func(ctx *fasthttp.RequestCtx) {
			stream, err := strconv.Atoi(string(ctx.Path()[1:]))
			if err != nil {
				panic(err)
			}
			ctx.SetContentType("text/event-stream")
			r.answer(ctx, func(yield func([]byte) bool) { script(stream, func() bool { return yield(frame) }) })
		}}}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = srv.Serve(ln) })
	b.Cleanup(func() {
		_ = srv.Shutdown(time.Second)
		done.Wait()
	})
	return ln.Addr().String()
}

// ear is the client of a stream. It keeps nothing.
type ear struct {
	net.Conn
	request []byte
}

func listenTo(b *testing.B, addr string, stream int) *ear {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return &ear{c, fmt.Appendf(nil, "POST /%d HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", stream, addr)}
}

func (e *ear) ask() error {
	_, err := e.Write(e.request)
	return err
}

// hear reads until what has come ends in end. What is in buf does not matter.
func (e *ear) hear(buf []byte, end string) error {
	for have := 0; ; have = copy(buf, buf[max(0, have-len(end)):have]) {
		n, err := e.Read(buf[have:])
		if have += n; bytes.HasSuffix(buf[:have], []byte(end)) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func reportEvents(b *testing.B, spent time.Duration, n int) {
	metric.Events(b, n)
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N*n), "cpu-ns/event")
}

// BenchmarkResponseFull writes frames as fast as their client takes them: each by itself, or all that one read of the upstream
// becomes in one write. An operation is a request; its client counts, here and below.
func BenchmarkResponseFull(b *testing.B) {
	const events = 16 * readFrames
	for _, flush := range []struct {
		name   string
		frames int
	}{{"each", 1}, {"read", readFrames}} {
		for _, r := range responders() {
			b.Run(flush.name+"/"+r.name, func(b *testing.B) {
				e := listenTo(b, respond(b, r, flush.frames, func(_ int, send func() bool) {
					for n := 0; n < events && send(); n += flush.frames {
					}
				}), 0)
				buf := make([]byte, 64<<10)
				b.SetBytes(events * frameBytes)
				b.ReportAllocs()
				before := cpu(b)
				for b.Loop() {
					if err := e.ask(); err != nil {
						b.Fatal(err)
					}
					if err := e.hear(buf, endOfAnswer); err != nil {
						b.Fatal(err)
					}
				}
				reportEvents(b, cpu(b)-before, events)
			})
		}
	}
}

// open opens streams that send a frame for each token of theirs in more, and one in the beginning. end lets them end, once.
func open(b *testing.B, r responder, streams int) (ears []*ear, more []chan struct{}, end func()) {
	b.Helper()
	more = make([]chan struct{}, streams)
	for i := range more {
		more[i] = make(chan struct{})
	}
	end = sync.OnceFunc(func() {
		for _, c := range more {
			close(c)
		}
	})
	addr := respond(b, r, 1, func(stream int, send func() bool) {
		for ok := send(); ok; ok = send() {
			if _, more := <-more[stream]; !more {
				return
			}
		}
	})
	b.Cleanup(end)
	buf := make([]byte, 4<<10)
	for i := range streams {
		e := listenTo(b, addr, i)
		if err := e.ask(); err != nil {
			b.Fatal(err)
		}
		if err := e.hear(buf, endOfFrame); err != nil {
			b.Fatal(err)
		}
		ears = append(ears, e)
	}
	return ears, more, end
}

// BenchmarkResponsePaced writes a frame when its client has the one before, so that each is a wake-up, on streams side by side. An
// operation is a frame on each.
func BenchmarkResponsePaced(b *testing.B) {
	const streams = 64
	for _, r := range responders() {
		b.Run(r.name, func(b *testing.B) {
			ears, more, _ := open(b, r, streams)
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			var wg sync.WaitGroup
			for i, e := range ears {
				wg.Go(func() {
					buf := make([]byte, 4<<10)
					for range b.N {
						more[i] <- struct{}{}
						if err := e.hear(buf, endOfFrame); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			reportEvents(b, cpu(b)-before, streams)
		})
	}
}

// BenchmarkResponseParked is what an answer holds while nothing is to be written, its client's socket included. An operation is a
// stream, side by side with up to 999 others.
func BenchmarkResponseParked(b *testing.B) {
	const most = 1000
	for _, r := range responders() {
		b.Run(r.name, func(b *testing.B) {
			memory, goroutines := 0, 0
			for left := b.N; left > 0; left -= most {
				b.StopTimer()
				before, beforeGo := held()
				b.StartTimer()
				ears, _, end := open(b, r, min(left, most))
				b.StopTimer()
				after, afterGo := held()
				memory, goroutines = memory+after-before, goroutines+afterGo-beforeGo
				end()
				buf := make([]byte, 4<<10)
				for _, e := range ears {
					if err := e.hear(buf, endOfAnswer); err != nil {
						b.Fatal(err)
					}
					_ = e.Close()
				}
			}
			b.ReportMetric(float64(memory)/float64(b.N), "B/stream")
			b.ReportMetric(float64(goroutines)/float64(b.N), "goroutines/stream")
		})
	}
}
