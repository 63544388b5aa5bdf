//go:build unix

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/codec"
)

// reader reads the lines of a body, as a provider does.
type reader struct {
	x     *exchange
	lines codec.LineReader
	reads int
}

// line returns the next line.
func (r *reader) line() error {
	for {
		if _, ok := r.lines.Next(); ok {
			return nil
		}
		r.reads++
		if err := r.lines.Fill(r.x.body); err != nil {
			return err
		}
	}
}

func (c contender) read(ctx context.Context, path string) (*reader, error) {
	x, err := c.open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return &reader{x: x}, nil
}

// reportCPU reports processor time and reads for each of n lines.
func reportCPU(b *testing.B, spent time.Duration, reads, n int) {
	b.ReportMetric(float64(spent.Nanoseconds())/float64(n), "cpu-ns/line")
	b.ReportMetric(float64(reads)/float64(n), "reads/line")
}

// BenchmarkTransportLines reads lines as fast as they come: what parsing costs, as many come in one read of the socket. An
// operation is a line.
func BenchmarkTransportLines(b *testing.B) {
	s := startSource(b)
	for _, path := range []string{"/lines", "/batches"} {
		for _, c := range contenders(b, s.url) {
			b.Run(path[1:]+"/"+c.name, func(b *testing.B) {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				r, err := c.read(ctx, path)
				if err != nil {
					b.Fatal(err)
				}
				defer r.x.end(false)
				b.SetBytes(lineBytes)
				b.ReportAllocs()
				before := cpu(b)
				for b.Loop() {
					if err := r.line(); err != nil {
						b.Fatal(err)
					}
				}
				reportCPU(b, cpu(b)-before, r.reads, b.N)
			})
		}
	}
}

// inBoth runs f for each contender, in plain text and over TLS.
func inBoth(b *testing.B, s *source, f func(b *testing.B, c contender)) {
	for _, row := range []struct {
		name string
		list []contender
	}{{"plain", contenders(b, s.url)}, {"tls", secureContenders(b, s)}} {
		for _, c := range row.list {
			b.Run(row.name+"/"+c.name, func(b *testing.B) { f(b, c) })
		}
	}
}

// BenchmarkTransportPaced is what traffic is like: streams side by side, each of which gets a line now and then, so that each line
// is a wake-up and a read of the socket. An operation is a line on each; its time is the gateway's pace.
func BenchmarkTransportPaced(b *testing.B) {
	const streams = 32
	s := startSource(b)
	inBoth(b, s, func(b *testing.B, c contender) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		readers := make([]*reader, streams)
		for i := range readers {
			r, err := c.read(ctx, "/paced")
			if err != nil {
				b.Fatal(err)
			}
			defer r.x.end(false)
			readers[i] = r
		}
		b.ReportAllocs()
		b.ResetTimer()
		before := cpu(b)
		var wg sync.WaitGroup
		for _, r := range readers {
			wg.Go(func() {
				for range b.N {
					if err := r.line(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		reads := 0
		for _, r := range readers {
			reads += r.reads
		}
		reportCPU(b, cpu(b)-before, reads, b.N*streams)
	})
}

// BenchmarkTransportParked is what a stream holds while its upstream thinks. An operation is a stream, side by side with up to 999
// others; its time is that until all have their first line.
func BenchmarkTransportParked(b *testing.B) {
	const most = 1000
	s := startSource(b)
	inBoth(b, s, func(b *testing.B, c contender) {
		b.StopTimer()
		var bytes, goroutines int
		for left := b.N; left > 0; left -= most {
			m, n := park(b, c, min(left, most))
			bytes, goroutines = bytes+m, goroutines+n
		}
		b.ReportMetric(float64(bytes)/float64(b.N), "B/stream")
		b.ReportMetric(float64(goroutines)/float64(b.N), "goroutines/stream")
	})
}

// park opens streams that are silent behind their first line, and returns what they hold. The timer runs while they begin.
func park(b *testing.B, c contender, streams int) (bytes, goroutines int) {
	before, beforeGo := held()
	ctx, cancel := context.WithCancel(b.Context())
	var ready, done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	ready.Add(streams)
	b.StartTimer()
	for range streams {
		done.Go(func() {
			r, err := c.read(ctx, "/parked")
			if err == nil {
				err = r.line()
			}
			ready.Done()
			if err != nil {
				b.Error(err)
				return
			}
			_ = r.line() // until ctx ends
			r.x.end(false)
		})
	}
	ready.Wait()
	b.StopTimer()
	after, afterGo := held()
	return after - before, afterGo - beforeGo
}

// held are the bytes of heap and stacks in use, and the goroutines.
func held() (bytes, goroutines int) {
	runtime.GC()
	runtime.GC() // what pools kept goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// BenchmarkTransportShort is a request whose answer is a short document, on a connection that is kept.
func BenchmarkTransportShort(b *testing.B) {
	s := startSource(b)
	for _, c := range contenders(b, s.url) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				x, err := c.open(ctx, "/short")
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, x.body)
				if err != nil || n != int64(len(short)) {
					b.Fatal(n, err)
				}
				x.end(true)
				cancel()
			}
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkTransportCancel is the time from the end of a context to when the gateway sees the end of the connection: before its
// answer has begun (silent) and in the middle of it (parked).
func BenchmarkTransportCancel(b *testing.B) {
	asked, gone := make(chan bool, 1), make(chan bool, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serveSource(c, func() { asked <- true }, func() { gone <- true })
		}
	}()
	for _, path := range []string{"/silent", "/parked"} {
		for _, c := range contenders(b, "http://"+ln.Addr().String()) {
			b.Run(path[1:]+"/"+c.name, func(b *testing.B) {
				if path == "/silent" && c.name == "fasthttp" {
					b.Skip("its client cannot be told to stop before the header is there")
				}
				for b.Loop() {
					b.StopTimer()
					ctx, cancel := context.WithCancel(b.Context())
					var began atomic.Bool
					done := make(chan error, 1)
					go func() {
						r, err := c.read(ctx, path)
						if err == nil {
							defer r.x.end(false)
							if err = r.line(); err == nil {
								began.Store(true)
								err = r.line()
							}
						}
						done <- err
					}()
					<-asked
					for path == "/parked" && !began.Load() {
						time.Sleep(100 * time.Microsecond)
					}
					time.Sleep(time.Millisecond) // for the read to block
					b.StartTimer()
					cancel()
					select {
					case <-gone:
					case <-time.After(10 * time.Second):
						b.Fatal("the gateway never saw the end")
					}
					b.StopTimer()
					if err := <-done; err == nil {
						b.Fatal("the reader saw no end")
					}
					b.StartTimer()
				}
			})
		}
	}
}
