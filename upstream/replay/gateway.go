package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/anthropic"
	"amplifier-agent/upstream/chatcompletions"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/recording"
)

const (
	// address is where nobody is: what is played comes from the dialler.
	address = "http://replay.invalid"
	key     = "replay-of-a-recording"
)

// provider is one that can be closed.
type provider interface {
	pipeline.Provider
	Close()
}

// answer plays a recording, whose body it closes.
func (p *Provider) answer(ctx context.Context, r *pipeline.Round, rec *recording.Recording, body io.ReadCloser, yield func(*pipeline.Event, error) bool) {
	g := &gateway{rec: rec, body: p.cfg.Cut(body)}
	defer func() {
		g.wg.Wait()
		_ = body.Close() // nothing was written
	}()
	made, err := p.open(rec, g.dial)
	if err != nil {
		yield(nil, unreadable(err))
		return
	}
	defer made.Close()
	ask := *r
	ask.Model, ask.Tries = rec.Model, 1 // it would answer the same again
	for ev, err := range made.Stream(ctx, &ask) {
		if !yield(ev, err) || err != nil {
			return
		}
	}
}

// open makes the provider that a recording was made by.
func (p *Provider) open(rec *recording.Recording, dial upstream.Dialer) (provider, error) {
	switch rec.Module {
	case commandcode.Name:
		return commandcode.New(commandcode.Config{ID: p.cfg.ID, BaseURL: address, Key: key, Surface: rec.Surface, Dial: dial, MaxLine: p.cfg.MaxLine, Log: p.cfg.Log})
	case anthropic.Name:
		return anthropic.New(anthropic.Config{ID: p.cfg.ID, BaseURL: address, Key: key, Dial: dial, MaxLine: p.cfg.MaxLine, Log: p.cfg.Log})
	}
	if _, ok := chatcompletions.Presets[rec.Module]; ok {
		return chatcompletions.New(chatcompletions.Config{ID: p.cfg.ID, Preset: rec.Module, BaseURL: address + "/v1", Key: key, Models: []string{rec.Model},
			Dial: dial, MaxLine: p.cfg.MaxLine, Log: p.cfg.Log})
	}
	return nil, fmt.Errorf("it was made by the module %q, which this build does not know", rec.Module)
}

// gateway answers one request with a recording.
type gateway struct {
	rec  *recording.Recording
	body io.Reader
	wg   sync.WaitGroup
}

func (g *gateway) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	g.wg.Go(func() {
		g.serve(server)
		_ = server.Close()
	})
	return client, nil
}

// serve is one connection. Its errors are the client's to see, which closes its end when it has had enough.
func (g *gateway) serve(c net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	w := bufio.NewWriter(c)
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n", g.rec.Response.Status, http.StatusText(g.rec.Response.Status))
	header := http.Header{}
	for name, v := range g.rec.Response.Header {
		header.Set(name, v)
	}
	_ = header.Write(w)
	_, _ = io.WriteString(w, "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
	buf := make([]byte, 32<<10)
	for {
		n, err := g.body.Read(buf)
		if n > 0 {
			fmt.Fprintf(w, "%x\r\n%s\r\n", n, buf[:n])
			if w.Flush() != nil {
				return
			}
		}
		if err == io.EOF && g.rec.Response.Whole {
			_, _ = io.WriteString(w, "0\r\n\r\n")
		}
		if err != nil {
			_ = w.Flush()
			return
		}
	}
}
