package codec

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"
)

// ErrEncoding reports a content encoding that this project cannot decode.
var ErrEncoding = errors.New("content encoding not supported")

// maxZstdWindow bounds the memory of a zstd decoder, in bytes.
const maxZstdWindow = 8 << 20

// Decompress returns a reader of the decoded body. An empty encoding and "identity" return src itself. Known are gzip, deflate
// (with and without the zlib wrapper), zstd and br; others give ErrEncoding. The caller bounds how much it reads, and closes
// the reader, which does not close src.
func Decompress(encoding string, src io.Reader) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(src), nil
	case "gzip", "x-gzip":
		return gzip.NewReader(src)
	case "deflate":
		return inflate(src)
	case "zstd":
		d, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case "br":
		return brrr.NewReader(src), nil
	}
	return nil, ErrEncoding
}

// inflate tells the two forms of "deflate" in the wild apart by their first two bytes.
func inflate(src io.Reader) (io.ReadCloser, error) {
	var head [2]byte
	n, err := io.ReadFull(src, head[:])
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	src = io.MultiReader(bytes.NewReader(head[:n]), src)
	if n == 2 && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		return zlib.NewReader(src)
	}
	return flate.NewReader(src), nil
}
