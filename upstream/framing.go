package upstream

import (
	"errors"
	"io"
)

// maxTrailerLines is how many lines may stand behind the last chunk.
const maxTrailerLines = 100

var errBadChunk = errors.New("its chunked body is malformed")

// sized reads a body of known length.
type sized struct {
	src  io.Reader
	left int64 // bytes
}

func (s *sized) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.src.Read(p[:min(int64(len(p)), s.left)])
	if s.left -= int64(n); err == io.EOF {
		if err = io.ErrUnexpectedEOF; s.left == 0 { // TLS tells of its end together with the last bytes
			err = nil
		}
	}
	return n, err
}

// chunked reads a chunked body. It reads the connection into the caller's memory and takes the framing out there, so that one read of
// the socket may bring many chunks. What has come of a chunk is returned before it looks for more.
type chunked struct {
	src   io.Reader
	at    chunkPart
	left  int64 // bytes of the open chunk; in a size, what its digits say so far
	line  int   // bytes of the line that is read: a size with its extension, or a line of the trailer
	lines int   // of the trailer
	extra bool  // bytes came behind the body: the connection cannot be used again
	err   error // of the next read
}

// chunkPart is a part of a chunked body.
type chunkPart uint8

const (
	chunkSize      chunkPart = iota // hex digits
	chunkExtension                  // what may stand behind them
	chunkSizeEnd                    // the line feed behind either
	chunkData
	chunkDataCR // behind the data
	chunkDataLF
	chunkTrailer
	chunkTrailerLF
	chunkDone
)

// maxChunkLine is how long a line of the framing may be, in bytes.
const maxChunkLine = 4 << 10

func (c *chunked) Read(p []byte) (int, error) {
	for c.err == nil {
		if c.at == chunkDone {
			c.err = io.EOF
			break
		}
		n, err := c.src.Read(p)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c.err = err
		kept, err := c.unframe(p[:n])
		switch {
		case err != nil:
			c.err = err
		case c.at == chunkDone: // whatever the connection says of itself
			c.err = io.EOF
		}
		if kept > 0 {
			return kept, nil
		}
		if len(p) == 0 {
			break
		}
	}
	return 0, c.err
}

// unframe moves the data in b to its beginning, and returns how much there is.
func (c *chunked) unframe(b []byte) (kept int, err error) {
	for i := 0; i < len(b); {
		if c.at == chunkData {
			n := int(min(c.left, int64(len(b)-i)))
			if kept != i {
				copy(b[kept:], b[i:i+n])
			}
			kept, i = kept+n, i+n
			if c.left -= int64(n); c.left == 0 {
				c.at = chunkDataCR
			}
			continue
		}
		if c.at == chunkDone {
			c.extra = true
			return kept, nil
		}
		if !c.frame(b[i]) {
			return kept, errBadChunk
		}
		i++
	}
	return kept, nil
}

// frame takes a byte that is no data. Lines end in CR and LF, and a bare line feed ends nothing.
func (c *chunked) frame(b byte) bool {
	c.line++
	switch c.at {
	case chunkSize:
		d, ok := hexDigit(b)
		switch {
		case ok:
			c.left = c.left<<4 | d
			return c.left < 1<<56 && c.line <= maxChunkLine
		case c.line == 1:
			return false
		case b == '\r':
			c.at = chunkSizeEnd
			return true
		}
		c.at = chunkExtension
		return b == ';' || b == ' ' || b == '\t'
	case chunkExtension:
		if b == '\r' {
			c.at = chunkSizeEnd
			return true
		}
		return b != '\n' && c.line <= maxChunkLine
	case chunkSizeEnd:
		c.line = 0
		if c.at = chunkData; c.left == 0 {
			c.at = chunkTrailer
		}
		return b == '\n'
	case chunkDataCR:
		c.at = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		c.at, c.line = chunkSize, 0
		return b == '\n'
	case chunkTrailer:
		if b == '\r' {
			c.at = chunkTrailerLF
			return true
		}
		return b != '\n' && c.line <= maxChunkLine
	case chunkTrailerLF:
		if c.at = chunkTrailer; c.line == 2 { // nothing but the line end
			c.at = chunkDone
		}
		c.line = 0
		c.lines++
		return b == '\n' && (c.at == chunkDone || c.lines <= maxTrailerLines)
	default: // data has no frame, and behind the end there is nothing
		return false
	}
}

func hexDigit(b byte) (int64, bool) {
	switch {
	case b >= '0' && b <= '9':
		return int64(b - '0'), true
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return int64(b | 0x20 - 'a' + 10), true
	}
	return 0, false
}
