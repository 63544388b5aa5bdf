package simulator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const fillerBlock = 64 << 10 // bytes in one write of Answer.Filler

// player sends one Answer. It belongs to the goroutine of its exchange.
type player struct {
	ctx   context.Context // ends when the client leaves or the server is closed
	w     http.ResponseWriter
	rc    *http.ResponseController
	out   io.Writer // w, or the compressor on it
	zip   compressor
	flush bool
	timer *time.Timer
}

// play sends a. An error means that the exchange did not reach its end: the client left, or the server was closed.
func (s *Server) play(w http.ResponseWriter, r *http.Request, a *Answer) error {
	p := &player{ctx: r.Context(), w: w, rc: http.NewResponseController(w), out: w, flush: a.streams()}
	defer p.stop()
	err := p.run(a, "req_"+strconv.FormatUint(s.serial.Add(1), 36))
	if err != nil && s.ctx.Err() != nil {
		_ = drop(p.rc, false) // a stream that Close cut must not look like one that came to its end
	}
	return err
}

func (p *player) run(a *Answer, id string) error {
	if err := p.wait(a.HeaderDelay); err != nil {
		return err
	}
	if a.End == EndReset && a.Status == 0 && len(a.Body) == 0 {
		return drop(p.rc, true)
	}
	h := p.w.Header()
	for k, v := range a.Header {
		h[k] = append([]string(nil), v...)
	}
	h.Set("Content-Type", a.contentType())
	h.Set("X-Request-Id", id)
	if a.Encoding != "" {
		zip, err := newCompressor(a.Encoding, p.w)
		if err != nil {
			http.Error(p.w, "simulator: "+err.Error(), http.StatusInternalServerError)
			return nil
		}
		h.Set("Content-Encoding", a.Encoding)
		p.zip, p.out = zip, zip
	}
	p.w.WriteHeader(a.status())
	if err := p.body(a); err != nil {
		return err
	}
	if err := p.fill(a.Filler); err != nil {
		return err
	}
	return p.end(a.End)
}

func (p *player) body(a *Answer) error {
	pos, pauses := 0, a.Pauses
	for {
		for len(pauses) > 0 && (pauses[0].At <= pos || pos == len(a.Body)) {
			if pos == 0 { // the headers must not wait as well
				if err := p.rc.Flush(); err != nil {
					return err
				}
			}
			if err := p.wait(pauses[0].For); err != nil {
				return err
			}
			pauses = pauses[1:]
		}
		if pos == len(a.Body) {
			return nil
		}
		limit := len(a.Body)
		if len(pauses) > 0 {
			limit = min(limit, pauses[0].At)
		}
		end := a.next(pos, limit)
		if err := p.write(a.Body[pos:end]); err != nil {
			return err
		}
		if pos = end; pos < len(a.Body) {
			if err := p.wait(a.Every); err != nil {
				return err
			}
		}
	}
}

func (p *player) write(b []byte) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if _, err := p.out.Write(b); err != nil {
		return err
	}
	if !p.flush {
		return nil
	}
	if p.zip != nil {
		if err := p.zip.Flush(); err != nil {
			return err
		}
	}
	return p.rc.Flush()
}

func (p *player) fill(n int64) error {
	block := bytes.Repeat([]byte{'x'}, int(min(n, fillerBlock)))
	for ; n > 0; n -= int64(len(block)) {
		if err := p.write(block[:min(n, int64(len(block)))]); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) end(e End) error {
	if e != EndEOF { // headers without a body have not left yet
		if err := p.rc.Flush(); err != nil {
			return err
		}
	}
	switch e {
	case EndReset:
		return drop(p.rc, true)
	case EndCut:
		return drop(p.rc, false)
	case EndHang:
		return p.wait(Forever)
	default: // EndEOF: net/http writes the end when the handler returns
		if p.zip != nil {
			return p.zip.Close()
		}
		return nil
	}
}

// drop closes the connection under net/http, by a reset or by a plain close.
func drop(rc *http.ResponseController, reset bool) error {
	conn, _, err := rc.Hijack()
	if err != nil {
		return err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		if err := tcp.SetLinger(0); err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	return conn.Close()
}

func (p *player) wait(d time.Duration) error {
	switch {
	case d == 0:
		return nil
	case d < 0:
		<-p.ctx.Done()
		return p.ctx.Err()
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *player) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
