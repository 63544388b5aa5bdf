package routes

import (
	"io"
	"net"
	"strings"
	"testing"
)

// TestMute: one header is dropped, however it is cut, and nothing behind it.
func TestMute(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const header, rest = "HTTP/1.1 200 OK\r\nA: \r\r\nB: x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nnext"
	want := new(strings.Builder)
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tcp, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{TCPConn: tcp.(*net.TCPConn)}
	for cut := range len(header + rest) {
		c.Mute()
		for _, part := range []string{(header + rest)[:cut], (header + rest)[cut:]} {
			if n, err := c.Write([]byte(part)); err != nil || n != len(part) {
				t.Fatalf("cut at %d: %d of %d bytes, %v", cut, n, len(part), err)
			}
		}
		want.WriteString(rest)
	}
	_ = c.TCPConn.Close()
	got, err := io.ReadAll(client)
	if err != nil || string(got) != want.String() {
		t.Errorf("got  %q, %v\nwant %q", got, err, want.String())
	}
}
