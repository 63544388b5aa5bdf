package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// model is the one that the gateway has.
const model = "load/model"

const (
	stampMark   = '@'
	stampDigits = 19                  // nanoseconds since 1970
	minBytes    = 2 + stampDigits + 3 // of a delta's text
)

// gatewayMain answers on addr until the process is ended: the Command Code gateway's newline-delimited JSON, and the same streams as
// server-sent events for a relay to pass on.
func gatewayMain(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			serveGateway(c)
		}()
	}
}

// serveGateway serves one connection. An error is the other end's doing, and ends it.
func serveGateway(c net.Conn) {
	r := bufio.NewReaderSize(c, 4<<10)
	var buf []byte
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		switch {
		case req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/models"):
			list := `{"object":"list","data":[{"id":"` + model + `","name":"Load","context_length":100000}]}`
			_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(list), list)
		case req.URL.Path == "/alpha/generate":
			buf, err = stream(c, buf, readPlay(string(body)), ndjson)
		case strings.Contains(string(body), `"stream":false`):
			err = whole(c, readPlay(string(body)))
		default:
			buf, err = stream(c, buf, readPlay(string(body)), events)
		}
		if err != nil {
			return
		}
	}
}

// wire is how a stream is written.
type wire struct{ begin, head, tail, end string }

var (
	ndjson = wire{
		begin: `{"type":"start"}` + "\n" + `{"type":"start-step","request":{},"warnings":[]}` + "\n" + `{"type":"text-start","id":"0"}` + "\n",
		head:  `{"type":"text-delta","id":"0","text":"`, tail: "\"}\n",
		end: `{"type":"text-end","id":"0"}` + "\n" + `{"type":"finish-step","finishReason":"stop","usage":{"inputTokens":10,"outputTokens":10},"providerMetadata":{"gateway":{"cost":"0.0001"}}}` + "\n" +
			`{"type":"finish","finishReason":"stop","totalUsage":{"inputTokens":10,"outputTokens":10}}` + "\n",
	}
	events = wire{
		begin: chunkHead + `{"role":"assistant"},"finish_reason":null}]}` + "\n\n",
		head:  chunkHead + `{"content":"`, tail: `"},"finish_reason":null}]}` + "\n\n",
		end: chunkHead + `{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
	}
)

const chunkHead = `data: {"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion.chunk","created":1700000000,"model":"load","choices":[{"index":0,"delta":`

// stream writes an answer. buf is room for it, and is returned.
func stream(c net.Conn, buf []byte, p play, w wire) ([]byte, error) {
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return buf, err
	}
	payload := append(make([]byte, 0, 64), w.begin...)
	text := strings.Repeat("x", p.bytes-stampDigits-2)
	next := time.Now()
	for sent := 0; ; {
		for i := 0; i < p.batch && sent < p.deltas; i++ {
			payload = append(append(payload, w.head...), stampMark)
			payload = strconv.AppendInt(payload, time.Now().UnixNano(), 10)
			payload = append(append(append(payload, stampMark), text...), w.tail...)
			sent++
		}
		last := sent == p.deltas
		if last {
			payload = append(payload, w.end...)
		}
		buf = strconv.AppendInt(buf[:0], int64(len(payload)), 16)
		buf = append(append(append(buf, "\r\n"...), payload...), "\r\n"...)
		if last {
			buf = append(buf, "0\r\n\r\n"...)
		}
		if _, err := c.Write(buf); err != nil || last {
			return buf, err
		}
		payload = payload[:0]
		if p.every > 0 {
			next = next.Add(p.every)
			time.Sleep(time.Until(next))
		}
	}
}

// whole writes an answer in one piece.
func whole(c net.Conn, p play) error {
	text := strings.Repeat("x", p.deltas*p.bytes)
	body := `{"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion","created":1700000000,"model":"load","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		text + `"},"finish_reason":"stop"}]}`
	_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}
