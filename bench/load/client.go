package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"amplifier-agent/codec"
)

const (
	clientKey = "load-key"
	// stallPlay is what those ask for who then do not read: enough to fill every buffer on the way.
	stallDeltas, stallBytes, stallBatch = 1 << 20, 256, 16
	startSpread                         = time.Second // over which the streams of a workload begin
)

// tally is what one stream has seen while it was measured.
type tally struct {
	latency  histogram // of deltas, or of whole answers
	deltas   uint64
	answers  uint64
	bytes    uint64
	failures uint64
	failure  error // the last
}

func (t *tally) merge(o *tally) {
	t.latency.merge(&o.latency)
	t.deltas, t.answers, t.bytes, t.failures = t.deltas+o.deltas, t.answers+o.answers, t.bytes+o.bytes, t.failures+o.failures
	if o.failure != nil {
		t.failure = o.failure
	}
}

// crowd are the clients of a workload.
type crowd struct {
	addr      string
	load      workload
	measuring atomic.Bool
	open      atomic.Int64 // streams that have had their first delta
	wg        sync.WaitGroup
	mu        sync.Mutex
	sum       tally
}

// start lets the clients begin. They end with ctx.
func (c *crowd) start(ctx context.Context) {
	for i := range c.load.streams {
		c.wg.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(startSpread * time.Duration(i) / time.Duration(c.load.streams)):
			}
			var t tally
			c.client(ctx, &t, i < c.load.stalled)
			c.mu.Lock()
			c.sum.merge(&t)
			c.mu.Unlock()
		})
	}
}

// client asks again and again on one connection.
func (c *crowd) client(ctx context.Context, t *tally, stalled bool) {
	p := c.load.play
	if stalled {
		p = play{stallDeltas, stallBytes, stallBatch, 0}
	}
	body, err := codec.Marshal(map[string]any{
		"model": model, "stream": !c.load.whole, "messages": []any{map[string]any{"role": "user", "content": p.prompt()}},
	})
	if err != nil {
		panic(err) // strings and numbers
	}
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.addr, clientKey, len(body), body)
	for ctx.Err() == nil {
		if err := c.connection(ctx, t, request, stalled); err != nil && ctx.Err() == nil {
			t.failures++
			t.failure = err
			time.Sleep(10 * time.Millisecond) // not to spin
		}
	}
}

func (c *crowd) connection(ctx context.Context, t *tally, request []byte, stalled bool) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	r := bufio.NewReaderSize(conn, 4<<10)
	lines := bufio.NewReaderSize(nil, 4<<10)
	for ctx.Err() == nil {
		began := time.Now()
		if _, err := conn.Write(request); err != nil {
			return err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		err = c.answer(ctx, t, resp, lines, began, stalled)
		_ = resp.Body.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// answer reads one answer. lines is room for it.
func (c *crowd) answer(ctx context.Context, t *tally, resp *http.Response, lines *bufio.Reader, began time.Time, stalled bool) error {
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	if c.load.whole {
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && c.measuring.Load() {
			t.answers++
			t.bytes += uint64(n)
			t.latency.add(time.Since(began))
		}
		return err
	}
	lines.Reset(resp.Body)
	if !stalled {
		return c.read(t, lines)
	}
	if _, err := lines.ReadSlice('\n'); err != nil {
		return err
	}
	c.open.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// read takes one stream to its end.
func (c *crowd) read(t *tally, lines *bufio.Reader) error {
	first, done := true, false
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && done {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if bytes.HasPrefix(line, []byte("data: [DONE]")) {
			if done = true; c.measuring.Load() {
				t.answers++
			}
			continue
		}
		stamp, ok := stampOf(line)
		if !ok {
			continue
		}
		if first {
			first = false
			c.open.Add(1)
			defer c.open.Add(-1)
		}
		if c.measuring.Load() {
			t.deltas++
			t.bytes += uint64(c.load.play.bytes)
			t.latency.add(time.Duration(time.Now().UnixNano() - stamp))
		}
	}
}

// stampOf finds when the gateway sent the delta in a line.
func stampOf(line []byte) (nanoseconds int64, ok bool) {
	i := bytes.IndexByte(line, stampMark) + 1
	if i == 0 || len(line) < i+stampDigits || line[i+stampDigits] != stampMark {
		return 0, false
	}
	for _, c := range line[i : i+stampDigits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		nanoseconds = nanoseconds*10 + int64(c-'0')
	}
	return nanoseconds, true
}
