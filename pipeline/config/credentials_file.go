package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gofrs/flock"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/atomicfile"
	"amplifier-agent/pipeline/secret"
)

const (
	credentialPerm = 0o600
	homePerm       = 0o700
	othersPerm     = 0o077

	lockPatience = 5 * time.Second // it is held for one write
	lockRetry    = 10 * time.Millisecond

	version    = "1"
	indentStep = "  "
)

// Members of the file.
const (
	versionMember   = "version"
	providersMember = "providers"
	keyMember       = "api_key"  // of an entry
	baseURLMember   = "base_url" // of a provider's config
)

// CredentialFile is the path of credentials.json below a home.
func CredentialFile(home string) string { return filepath.Join(home, "credentials.json") }

// SetCredential writes the key or the address of a provider, or both, into credentials.json of home; "" leaves what is there. The id is
// the module's name for all of its providers that have no entry of their own. All else in the file stays as it is, byte for byte but
// for the layout around it; a flat file becomes one of version 1. Processes that write at once do not lose each other's changes. A file
// that is damaged is an error and stays.
func SetCredential(home, id, module, key, address string) error {
	err := func() error {
		key, address := secret.CleanKey(key), secret.CleanKey(address)
		if err := checkCredential(id, module, key, address); err != nil {
			return err
		}
		return change(home, func(f *credentialFile) bool {
			entry := f.entry(id)
			if key != "" {
				entry = with(entry, keyMember, codec.AppendString(nil, key))
			}
			if address != "" {
				entry = with(entry, accountOf(module).member, codec.AppendString(nil, address))
			}
			f.entries = with(f.entries, id, appendMembers(nil, entry, strings.Repeat(indentStep, 2)))
			return true
		})
	}()
	if err != nil {
		return fmt.Errorf("set credentials of %s: %w", quote(id), err)
	}
	return nil
}

// RemoveCredential removes an entry from credentials.json of home, also one that is no module's, and reports whether it was there.
func RemoveCredential(home, name string) (removed bool, err error) {
	if _, err := os.Lstat(CredentialFile(home)); errors.Is(err, fs.ErrNotExist) {
		return false, nil // and no home is made for that
	}
	err = change(home, func(f *credentialFile) bool {
		n := len(f.entries)
		f.entries = slices.DeleteFunc(f.entries, func(m member) bool { return m.name == name })
		removed = len(f.entries) < n
		return removed
	})
	if err != nil {
		return false, fmt.Errorf("remove credentials of %s: %w", quote(name), err)
	}
	return removed, nil
}

// CredentialModule returns the module of an id that credentials.json can have an entry of, and whether that must have a key. The id is
// a module's name, or that of one of providers, which are those of a host config.
func CredentialModule(id string, providers []Provider) (module string, needsKey bool, err error) {
	var names []string
	for _, a := range accounts {
		if a.file {
			names = append(names, a.module)
		}
	}
	for _, p := range providers {
		if a := accountOf(p.Module); a != nil && a.own(p.ID) {
			names = append(names, p.ID)
			if p.ID == id {
				return a.module, a.key == required || !a.file, nil
			}
		}
	}
	a := accountOf(id)
	switch {
	case a == nil:
		e := fmt.Sprintf("unknown provider %s: ", quote(id))
		if i := nearest(id, names); i >= 0 {
			return "", false, fmt.Errorf("%sdid you mean %s?", e, names[i])
		}
		return "", false, fmt.Errorf("%suse one of %s, or a provider of the host config that --config names", e, strings.Join(names, ", "))
	case !a.file:
		return "", false, fmt.Errorf("%s is set up by its variables only: export %s", id, strings.Join(append(slices.Clone(a.addresses), a.keys...), " and "))
	}
	return id, a.key == required, nil
}

func checkCredential(id, module, key, address string) error {
	if m, _, err := CredentialModule(id, []Provider{{ID: id, Module: module}}); err != nil {
		return err
	} else if m != module {
		return fmt.Errorf("that is the name of a module, and not of a provider of the module %s", module)
	}
	a := accountOf(module)
	if strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return errors.New("the key has white space, control characters or bytes that are no text in it: is it more than the key?")
	}
	if address == "" {
		if key == "" {
			return errors.New("nothing to set: give a key")
		}
		return nil
	}
	if a.member == "" {
		return errors.New("it has no address of its own: leave the endpoint out, or set base_url in the host config")
	}
	full := address
	if a.module == "ollama" {
		full = ollamaURL(address)
	}
	if u, err := url.Parse(full); err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("the endpoint is no http:// or https:// URL with a host")
	}
	return nil
}

// credentialFile is the content of credentials.json: members in the order of the file, values as they stand there.
type credentialFile struct {
	path    string
	root    []member // with a place for providers
	entries []member // of providers
}

// readCredentials reads the file for those who only want to know: one that cannot be used is none, and a warning.
func readCredentials(home string) (f credentialFile, warnings []string) {
	path := CredentialFile(home)
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&othersPerm != 0 && runtime.GOOS != "windows" {
		warnings = append(warnings, fmt.Sprintf("credentials %s can be used by others (mode %#o): chmod 600 it", path, info.Mode().Perm()))
	}
	f, err := openCredentials(path)
	if err != nil {
		return credentialFile{path: path}, append(warnings, err.Error()+"; until then it counts as empty")
	}
	return f, warnings
}

func openCredentials(path string) (credentialFile, error) {
	data, err := readCredentialFile(path)
	if err != nil {
		return credentialFile{}, err
	}
	f := credentialFile{path: path}
	if err := f.parse(data); err != nil {
		return credentialFile{}, damaged(path, err)
	}
	return f, nil
}

func damaged(path string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		err = errors.New(e.Message) // its code is that of a host config
	}
	return fmt.Errorf("credentials %s: %w: mend the file or move it away", path, err)
}

// readCredentialFile reads a file without its byte order mark. One that is not there, or has nothing in it, is empty.
func readCredentialFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("credentials %s: it is not a regular file: move it away", path)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(path, unreadable(path, err))
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, damaged(path, unreadable(path, err))
	}
	if len(data) > maxFileBytes {
		return nil, damaged(path, fmt.Errorf("it is larger than %d bytes", maxFileBytes))
	}
	return bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\uFEFF"))), nil
}

// parse takes a file of version 1, or the flat map of names to keys that came before it.
func (f *credentialFile) parse(data []byte) error {
	if len(data) == 0 {
		data = []byte("{}")
	}
	if err := wellFormed(data); err != nil {
		return err
	}
	if kindOf(data) != codec.Object {
		return errors.New("it is no JSON object")
	}
	root := membersOf(data)
	if i := index(root, providersMember); i >= 0 {
		if kind := kindOf(root[i].raw); kind != codec.Object && kind != codec.Null {
			return errors.New("its providers are no JSON object")
		}
		f.root, f.entries = root, membersOf(root[i].raw)
		return nil
	}
	for _, m := range root {
		if kindOf(m.raw) == codec.String && m.name != versionMember {
			f.entries = append(f.entries, m)
		} else {
			f.root = append(f.root, m)
		}
	}
	f.root = append(f.root, member{name: providersMember})
	return nil
}

// entry returns the members of an entry. One that is only a key has that one.
func (f *credentialFile) entry(name string) []member {
	i := index(f.entries, name)
	if i < 0 {
		return nil
	}
	raw := f.entries[i].raw
	if kindOf(raw) == codec.String {
		return []member{{keyMember, raw}}
	}
	return membersOf(raw)
}

func (f *credentialFile) text(name, memberName string) string {
	return memberText(f.entry(name), memberName)
}

// bytes is the file again.
func (f *credentialFile) bytes() []byte {
	root := slices.Clone(f.root)
	if index(root, versionMember) < 0 {
		root = slices.Insert(root, 0, member{versionMember, []byte(version)})
	}
	return append(appendMembers(nil, with(root, providersMember, appendMembers(nil, f.entries, indentStep)), ""), '\n')
}

// change lets f change the file, and writes it if f says so, while no other process does the same.
func change(home string, f func(*credentialFile) bool) error {
	// A folder that everybody may write to is no home, and must not be shut to the others.
	if info, err := os.Stat(home); err == nil && info.Mode()&fs.ModeSticky != 0 {
		return fmt.Errorf("the home %s is a folder for everybody: set AMPLIFIER_AGENT_HOME to one of your own", home)
	}
	if err := atomicfile.Dir(home, homePerm); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(home, "credentials.lock"), flock.SetPermissions(credentialPerm))
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("lock %s: %w: end the amplifier-agent that hangs, and try again", lock.Path(), err)
	}
	defer func() { _ = lock.Close() }()
	file, err := openCredentials(CredentialFile(home))
	if err != nil {
		return err
	}
	if i := index(file.root, versionMember); i >= 0 && string(file.root[i].raw) != version {
		return fmt.Errorf("credentials %s: its version is %s, and this program knows %s: use a newer program", file.path, file.root[i].raw, version)
	}
	if !f(&file) {
		return nil
	}
	return atomicfile.Write(file.path, file.bytes(), credentialPerm)
}

func index(list []member, name string) int {
	return slices.IndexFunc(list, func(m member) bool { return m.name == name })
}

// with returns the list with a member set to a value, at its old place or at the end.
func with(list []member, name string, raw []byte) []member {
	list = slices.Clone(list)
	if i := index(list, name); i >= 0 {
		list[i].raw = raw
		return list
	}
	return append(list, member{name, raw})
}

// memberText is a member that is a string, "" if there is none.
func memberText(list []member, name string) string {
	if i := index(list, name); i >= 0 {
		return textOf(list[i].raw)
	}
	return ""
}

// appendMembers appends an object, a member a line. indent stands before the line that the object ends on.
func appendMembers(dst []byte, list []member, indent string) []byte {
	if len(list) == 0 {
		return append(dst, "{}"...)
	}
	before := byte('{')
	for _, m := range list {
		dst = append(append(append(dst, before, '\n'), indent...), indentStep...)
		before = ','
		dst = append(append(codec.AppendString(dst, m.name), ": "...), m.raw...)
	}
	return append(append(append(dst, '\n'), indent...), '}')
}
