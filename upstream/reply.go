package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/codec"
)

const (
	// maxInterim is how many interim answers (1xx) may come before the answer.
	maxInterim = 5
	// maxHeaderBytes is how long the header of an answer may be.
	maxHeaderBytes = 64 << 10
	// refusalWait is how long a gateway that stopped reading the request may take to say why.
	refusalWait = time.Second
)

// Reply is the answer to a Call. It must be closed.
type Reply struct {
	Status int
	Body   io.Reader // decoded from its content encoding; reads are those of a conn

	t       *Transport
	c       *conn
	resp    *fasthttp.Response
	unbind  func() bool
	decoded io.Closer // of Body, nil if the body came plain
	endless bool      // the connection serves no further exchange
	chunks  chunked   // the body, if it is one of chunks
}

// exchange writes the request and reads the header of the answer.
func (r *Reply) exchange(call *Call) error {
	r.resp = fasthttp.AcquireResponse()
	if err := r.send(call); err != nil {
		err = r.c.reason(err)
		if errors.Is(err, errStopped) || !r.refused() {
			return err
		}
	} else if err := r.header(); err != nil {
		return err
	}
	h := &r.resp.Header
	if len(h.ContentEncoding()) == 0 {
		r.Body = r.body()
		return nil
	}
	d, err := codec.Decompress(string(h.ContentEncoding()), r.body())
	if err != nil {
		return fmt.Errorf("body with content encoding %q: %w", h.ContentEncoding(), r.c.reason(err))
	}
	r.Body, r.decoded = d, d
	return nil
}

// header reads the header of the answer. One that outgrows the connection's buffer gets a larger one, for this exchange only.
func (r *Reply) header() error {
	h := &r.resp.Header
	r.c.borrow()
	for interim := 0; interim <= maxInterim; interim++ {
		err := h.Read(r.c.br)
		if _, small := errors.AsType[*fasthttp.ErrSmallBuffer](err); small && r.c.br.Size() < maxHeaderBytes {
			r.endless = true
			r.c.br = bufio.NewReaderSize(r.c.br, maxHeaderBytes)
			err = h.Read(r.c.br)
		}
		if err != nil {
			break
		}
		if r.Status = h.StatusCode(); r.Status >= 200 || r.Status == fasthttp.StatusSwitchingProtocols {
			return nil
		}
	}
	return r.c.reason(errNoHTTP) // the error itself would show bytes of the answer
}

// refused looks, for a moment, for the answer of a gateway that has refused the request while it was still being sent.
func (r *Reply) refused() bool {
	r.endless = true
	r.c.ended = nil
	r.c.limit(refusalWait)
	return r.header() == nil && r.Status >= 400
}

// body returns the body as it was sent, without what frames it.
func (r *Reply) body() io.Reader {
	n := r.resp.Header.ContentLength()
	switch {
	case r.Status == fasthttp.StatusNoContent, r.Status == fasthttp.StatusNotModified:
		return &sized{src: rest{r.c}}
	case n >= 0:
		return &sized{src: rest{r.c}, left: int64(n)}
	case n == -1:
		r.chunks = chunked{src: rest{r.c}}
		return &r.chunks
	}
	r.endless = true
	return rest{r.c}
}

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

func (r *Reply) send(call *Call) error {
	req := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(req)
	req.Header.SetMethod(call.Method)
	req.Header.SetRequestURI(r.t.path + call.Path)
	req.Header.SetHost(r.t.base.Host)
	if p := r.t.proxy; p != nil && p.tunnel == "" && p.auth != "" {
		req.Header.Set("Proxy-Authorization", p.auth)
	}
	if r.t.basic != "" {
		req.Header.Set("Authorization", r.t.basic)
	}
	for _, h := range call.Header {
		req.Header.Set(h[0], h[1])
	}
	if call.Body != nil {
		req.SetBodyRaw(call.Body)
	}
	w := writers.Get().(*bufio.Writer)
	w.Reset(r.c.stream)
	defer func() {
		w.Reset(nil)
		writers.Put(w)
	}()
	if err := req.Write(w); err != nil {
		return err
	}
	return w.Flush()
}

// Header returns a field of the answer's header.
func (r *Reply) Header(name string) string { return string(r.resp.Header.Peek(name)) }

// Limit lets reads of the body go on for at most d from now.
func (r *Reply) Limit(d time.Duration) { r.c.limit(d) }

// Close ends the exchange. Done says that the body was read to its end, so that the connection can be used again; one that was
// decoded may still hold bytes behind that end.
func (r *Reply) Close(done bool) {
	undisturbed := r.unbind()
	if r.decoded != nil {
		_ = r.decoded.Close()
	}
	keep := done && undisturbed && r.decoded == nil && !r.endless && r.resp != nil && !r.resp.ConnectionClose() && !r.chunks.extra && r.c.drained()
	if r.resp != nil {
		fasthttp.ReleaseResponse(r.resp)
		r.resp = nil
	}
	r.c.unbind()
	if keep {
		r.t.pool.put(r.c)
		return
	}
	_ = r.c.Conn.Close()
}
