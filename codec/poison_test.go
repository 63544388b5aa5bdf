//go:build !race

package codec_test

// slow is how much longer things may take in this build.
const slow = 1
