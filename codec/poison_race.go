//go:build race

package codec

// poison makes LineReader overwrite consumed lines, so that a borrowed slice that was kept breaks a test.
const poison = true
