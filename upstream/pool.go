package upstream

import (
	"sync"
	"time"
)

const (
	// idleKeep is how long an idle connection is kept: shorter than servers usually do.
	idleKeep = 30 * time.Second
	// maxIdle is how many are kept: what a burst of streams leaves behind is of no use to what follows it.
	maxIdle = 128
)

// pool holds the idle connections of one gateway, the newest on top. The zero value is ready to use.
type pool struct {
	mu     sync.Mutex
	conns  []*conn
	sweep  *time.Timer
	closed bool
}

// get returns an idle connection, nil if there is none. One on which something waits to be read is not idle: the gateway has
// closed it, or has answered what was not asked.
func (p *pool) get() *conn {
	for {
		c := p.pop()
		if c == nil || c.quiet() {
			return c
		}
		_ = c.Conn.Close()
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns) - 1
	if n < 0 {
		return nil
	}
	c := p.conns[n]
	p.conns[n] = nil
	p.conns = p.conns[:n]
	return c
}

// put keeps c for a later exchange, in place of the oldest one if there are enough.
func (p *pool) put(c *conn) {
	c.reused = true
	c.parked = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Conn.Close()
		return
	}
	if len(p.conns) == maxIdle {
		_ = p.conns[0].Conn.Close()
		p.conns = append(p.conns[:0], p.conns[1:]...)
	}
	p.conns = append(p.conns, c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleKeep, p.evict)
	} else if len(p.conns) == 1 {
		p.sweep.Reset(idleKeep)
	}
}

// evict closes what has been idle for too long; the oldest lie at the bottom.
func (p *pool) evict() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := time.Now().Add(-idleKeep)
	n := 0
	for n < len(p.conns) && !p.conns[n].parked.After(old) {
		_ = p.conns[n].Conn.Close()
		n++
	}
	p.conns = append(p.conns[:0], p.conns[n:]...)
	clear(p.conns[len(p.conns):cap(p.conns)])
	if len(p.conns) > 0 && !p.closed {
		p.sweep.Reset(time.Until(p.conns[0].parked.Add(idleKeep)) + time.Millisecond)
	}
}

// close closes the idle connections, now and as they come back.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for _, c := range p.conns {
		_ = c.Conn.Close()
	}
	p.conns = nil
}
