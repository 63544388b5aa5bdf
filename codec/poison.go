//go:build !race

package codec

const poison = false
