package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	maxSlugBytes  = 64
	keptSlugBytes = 55 // of a slug that is too long; a hash follows
)

var slug = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// CheckWorkspace returns an error if s is no workspace slug (rulings 7).
func CheckWorkspace(s string) error {
	if !slug.MatchString(s) {
		return fmt.Errorf("workspace %q: use 1 to %d lower-case letters, digits and dashes, not starting with a dash", s, maxSlugBytes)
	}
	return nil
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// Workspace derives a slug from a directory (rulings 7).
func Workspace(dir string) string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	s := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(dir), "-"), "-")
	switch {
	case s == "":
		return "root"
	case len(s) > maxSlugBytes:
		sum := sha256.Sum256([]byte(s))
		return s[:keptSlugBytes] + "-" + hex.EncodeToString(sum[:4])
	}
	return s
}
