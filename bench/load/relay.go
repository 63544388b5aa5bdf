package main

import (
	"io"
	"net"
)

// relayMain copies bytes between its clients and the gateway, and nothing else: what no server can do much better than.
func relayMain(addr, gateway string) error {
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
			up, err := net.Dial("tcp", gateway)
			if err != nil {
				return
			}
			defer func() { _ = up.Close() }()
			go func() {
				buf := make([]byte, 2<<10)
				_, _ = io.CopyBuffer(struct{ io.Writer }{up}, struct{ io.Reader }{c}, buf)
				_ = up.Close()
			}()
			buf := make([]byte, 4<<10) // no splice: a server has to look at the bytes
			_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{up}, buf)
		}()
	}
}
