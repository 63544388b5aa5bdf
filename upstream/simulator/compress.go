package simulator

import (
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr"
)

const brotliLevel = 1 // of 11: it is a test of the decoder, not of the ratio

type compressor interface {
	io.WriteCloser
	Flush() error
}

// newCompressor returns the compressor of a Content-Encoding. "deflate" is the zlib format, as RFC 9110 §8.4.1.2 defines it.
func newCompressor(encoding string, w io.Writer) (compressor, error) {
	switch encoding {
	case "gzip":
		return gzip.NewWriter(w), nil
	case "deflate":
		return zlib.NewWriter(w), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) // one: no goroutine of its own
	case "br":
		return brotli.NewWriter(w, brotliLevel)
	default:
		return nil, fmt.Errorf("no content encoding is called %q", encoding)
	}
}
