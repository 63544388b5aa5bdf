package upstream

import (
	"bufio"
	"errors"
	"io"
)

// maxTrailerLines is how many lines may stand behind the last chunk.
const maxTrailerLines = 100

var errBadChunk = errors.New("its chunked body is malformed")

// sized reads a body of known length.
type sized struct {
	br   *bufio.Reader
	left int64 // bytes
}

func (s *sized) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.br.Read(p[:min(int64(len(p)), s.left)])
	if s.left -= int64(n); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// chunked reads a chunked body. It returns what has come of a chunk before it looks for more, were it only the line end behind
// the chunk: a delta is not held back for that.
type chunked struct {
	br   *bufio.Reader
	left int64 // bytes of the open chunk
	open bool  // a chunk was begun whose line end has not been read
	done bool
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n, err := c.br.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// next moves to the next chunk. After the last one it reads the trailer and returns io.EOF.
func (c *chunked) next() error {
	if c.done {
		return io.EOF
	}
	if c.open {
		if line, err := c.line(); err != nil || len(line) > 0 {
			return c.fail(err)
		}
		c.open = false
	}
	line, err := c.line()
	if err != nil {
		return c.fail(err)
	}
	if c.left = chunkSize(line); c.left < 0 {
		return errBadChunk
	}
	if c.left > 0 {
		c.open = true
		return nil
	}
	for range maxTrailerLines + 1 {
		switch line, err := c.line(); {
		case err != nil:
			return c.fail(err)
		case len(line) == 0:
			c.done = true
			return io.EOF
		}
	}
	return errBadChunk
}

// line reads up to a line end, which it strips. The line is valid until the next read.
func (c *chunked) line() ([]byte, error) {
	b, err := c.br.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if n := len(b) - 2; n >= 0 && b[n] == '\r' {
		return b[:n], nil
	}
	return nil, errBadChunk // a bare line feed ends nothing
}

// fail is what an error in the framing means: no end of the body, whatever the connection says.
func (c *chunked) fail(err error) error {
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err == nil, errors.Is(err, bufio.ErrBufferFull):
		return errBadChunk
	}
	return err
}

// chunkSize reads the size that a chunk begins with; extensions behind it are passed over. It is negative if there is none.
func chunkSize(line []byte) int64 {
	n := int64(0)
	for i, b := range line {
		var d byte
		switch {
		case b >= '0' && b <= '9':
			d = b - '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			d = b | 0x20 - 'a' + 10
		case i > 0 && (b == ';' || b == ' ' || b == '\t'):
			return n
		default:
			return -1
		}
		if n >= 1<<56 {
			return -1
		}
		n = n<<4 | int64(d)
	}
	if len(line) == 0 {
		return -1
	}
	return n
}
