//go:build unix

package bench

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asSource, in the environment of this test binary, makes it play the gateway of the transport benchmarks: what a gateway costs
// must not count as its client's.
const asSource = "AMPLIFIER_AGENT_BENCH_AS_SOURCE"

func TestMain(m *testing.M) {
	if os.Getenv(asSource) != "" {
		playSource()
		return
	}
	os.Exit(m.Run())
}

const (
	lineBytes   = 150 // of a line of the answer, about what gateways send a token
	batchLines  = 27  // of a chunk that was gathered: 4 KiB
	parkedLines = 1   // behind the header of an answer that then is silent
	pace        = 2 * time.Millisecond
	slowPace    = 50 * time.Millisecond
)

// linesOf are n lines of the answer.
func linesOf(n int) []byte {
	const head, tail = `{"type":"text-delta","id":"txt-0","text":"`, `"}` + "\n"
	return bytes.Repeat([]byte(head+strings.Repeat("x", lineBytes-len(head)-len(tail))+tail), n)
}

// chunkOf is a body as one chunk.
func chunkOf(body []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(body), body) }

var short = []byte(`{"object":"list","data":[` + strings.Repeat(`{"id":"some/model","object":"model"},`, 26) + `{}]}`)

// serveSource answers requests on c for ever, as their paths say. asked and gone, which may be nil, hear of a request that has
// come and of a client that has gone.
func serveSource(c net.Conn, asked, gone func()) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if asked != nil {
			asked()
		}
		begin := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
		var each []byte
		wait := time.Duration(0)
		switch r.URL.Path {
		case "/short":
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(short), short)
			continue
		case "/parked":
			begin = append(begin, chunkOf(linesOf(parkedLines))...)
		case "/silent":
			begin = nil
		case "/paced":
			each, wait = chunkOf(linesOf(1)), pace
		case "/slow":
			each, wait = chunkOf(linesOf(1)), slowPace
		case "/lines":
			each = bytes.Repeat(chunkOf(linesOf(1)), 100)
		case "/batches":
			each = bytes.Repeat(chunkOf(linesOf(batchLines)), 4)
		}
		_, err = c.Write(begin)
		for err == nil && each != nil {
			time.Sleep(wait)
			_, err = c.Write(each)
		}
		_, _ = io.Copy(io.Discard, br)
		if gone != nil {
			gone()
		}
		return
	}
}

// ServeHTTP is the part of serveSource that can be asked for over HTTP/2.
func serveSourceHTTP(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	_, err := w.Write(linesOf(parkedLines))
	for err == nil && flush.Flush() == nil {
		if r.URL.Path == "/parked" {
			<-r.Context().Done()
			return
		}
		time.Sleep(pace)
		_, err = w.Write(linesOf(1))
	}
}

// playSource serves until its standard input ends.
func playSource() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				panic(err)
			}
			go serveSource(c, nil, nil)
		}
	}()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(serveSourceHTTP))
	srv.EnableHTTP2 = true
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 250} // Go's own default, said
	srv.StartTLS()
	fmt.Printf("http://%s %s\n", ln.Addr(), srv.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// source is a gateway in a process of its own.
type source struct {
	url, tlsURL string
	caFile      string
	roots       *x509.CertPool
}

func startSource(tb testing.TB) *source {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), asSource+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	s := &source{roots: x509.NewCertPool(), caFile: filepath.Join(tb.TempDir(), "ca.pem")}
	if _, err := fmt.Fscanln(out, &s.url, &s.tlsURL); err != nil {
		tb.Fatal(err)
	}
	srv := httptest.NewTLSServer(nil) // all have one certificate
	defer srv.Close()
	s.roots.AddCert(srv.Certificate())
	if err := os.WriteFile(s.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		tb.Fatal(err)
	}
	return s
}

// cpu is the time that this process has spent on processors.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
