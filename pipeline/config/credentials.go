package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/secret"
)

// Source says where a credential comes from.
type Source string

// The sources, in the order in which they are asked.
const (
	SourceConfig  Source = "config" // the host config itself, which has the last word
	SourceEnv     Source = "env"
	SourceFile    Source = "file"
	SourceDefault Source = "default" // an address that nobody named
	SourceNone    Source = "none"
)

// ErrNoCredential is wrapped by the error of a credential that is not there.
var ErrNoCredential = errors.New("no credentials")

// Credential is what a provider is reached with (rulings 10). It prints without its key, in JSON as well.
type Credential struct {
	ID       string `json:"provider"` // of the provider; the module's name for those that are called so
	Module   string `json:"module"`
	Resolved bool   `json:"resolved"` // all that the module needs was found; false for an address by default
	Source   Source `json:"source"`
	Variable string `json:"variable,omitempty"` // that it comes from; if it comes from nowhere, the one to set
	Path     string `json:"path,omitempty"`     // of the file that it comes from
	Entry    string `json:"entry,omitempty"`    // of credentials.json that it comes from

	Key      string `json:"-"`
	Endpoint string `json:"-"` // a base URL, where the user has named one; it may hold a password
	Shared   bool   `json:"-"` // the key is that of all providers of the module, the endpoint this provider's own

	Warnings []string `json:"-"` // for the log, and free of secrets
}

// Fields names what was found: api_key, endpoint.
func (c Credential) Fields() []string {
	list := []string{}
	if c.Key != "" {
		list = append(list, keyMember)
	}
	if c.Endpoint != "" {
		list = append(list, "endpoint")
	}
	return list
}

// String implements fmt.Stringer, so that no log has the key.
func (c Credential) String() string {
	return fmt.Sprintf("%s from %s: key %q", c.ID, c.Source, c.MaskedKey())
}

// GoString is String, for %#v.
func (c Credential) GoString() string { return c.String() }

const (
	shownKeyBytes    = 4  // of the end of a key
	minShownKeyBytes = 16 // of keys of which an end is shown: less would be too much of a short one
)

// MaskedKey is the key as people may see it: its last four characters, or none of a short one. No key is "".
func (c Credential) MaskedKey() string {
	switch {
	case c.Key == "":
		return ""
	case len(c.Key) < minShownKeyBytes:
		return "…"
	}
	return "…" + strings.ToValidUTF8(c.Key[len(c.Key)-shownKeyBytes:], "")
}

// need is how much a module wants something.
type need uint8

const (
	never need = iota
	optional
	required
)

// account is what there is to know of the credentials of a module.
type account struct {
	module     string
	keys       []string // variables of the key; the first is the one to name
	key        need
	deprecated string // the one of keys that earns a notice
	keyless    string // what stands for a key that is not there

	addresses []string // variables of the address
	address   need
	fallback  string // an address that does not count as resolved
	member    string // of the file, for the address; "" if the file has none

	file   bool   // credentials.json is asked
	vendor string // a file of the vendor's own below the user's home, asked last
}

// accounts are the modules that need credentials. Adding one is a line here.
var accounts = []account{
	{module: "commandcode", keys: []string{"COMMANDCODE_API_KEY", "COMMAND_CODE_API_KEY"}, key: required, file: true, vendor: ".commandcode/auth.json"},
	{module: "anthropic", keys: []string{"ANTHROPIC_API_KEY"}, key: required, file: true},
	{module: "openai", keys: []string{"OPENAI_API_KEY"}, key: required, file: true},
	{module: "azure-openai", keys: []string{"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_KEY"}, key: required, deprecated: "AZURE_OPENAI_KEY",
		addresses: []string{"AZURE_OPENAI_ENDPOINT"}, address: required, member: "endpoint", file: true},
	{module: "ollama", key: optional, addresses: []string{"OLLAMA_HOST", "OLLAMA_BASE_URL"}, address: required, fallback: "http://localhost:11434",
		member: "host", file: true},
	{module: "github-copilot", keys: []string{"GITHUB_TOKEN"}, key: required, file: true},
	{module: "gemini", keys: []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"}, key: required, file: true},
	{module: "chat-completions", keys: []string{"CHAT_COMPLETIONS_API_KEY"}, key: optional, addresses: []string{"CHAT_COMPLETIONS_BASE_URL"}, address: required},
	{module: "vllm", keys: []string{"VLLM_API_KEY"}, key: optional, keyless: "EMPTY", addresses: []string{"VLLM_BASE_URL"}, address: required},
}

func accountOf(module string) *account {
	if i := slices.IndexFunc(accounts, func(a account) bool { return a.module == module }); i >= 0 {
		return &accounts[i]
	}
	return nil
}

// CredentialVariables are the variables that Resolve reads: those of keys, and those of addresses.
func CredentialVariables() (keys, addresses []string) {
	for _, a := range accounts {
		keys, addresses = append(keys, a.keys...), append(addresses, a.addresses...)
	}
	return keys, addresses
}

// Resolve finds the credential of a provider: in its own config, in the variables of its module, in the entry of credentials.json of
// home that has the provider's id, in the one that has the module's name, in the vendor's own file below userHome (which may be ""). A
// variable without content is not set. An id that is the name of another module has no entry of its own: that one's key is not for this
// provider. The error of a credential that is not there wraps ErrNoCredential and says what to do; the Credential then still says what
// was looked for. A local address by default is no error, and not resolved.
func Resolve(p Provider, env func(string) string, home, userHome string) (Credential, error) {
	a := accountOf(p.Module)
	if a == nil {
		return Credential{ID: p.ID, Module: p.Module, Source: SourceNone}, fmt.Errorf("module %s has no credentials", quote(p.Module))
	}
	var f credentialFile
	var warnings []string
	if a.file || a.own(p.ID) {
		f, warnings = readCredentials(home)
	}
	c, err := a.resolve(p, env, &f, userHome)
	c.Warnings = append(warnings, c.Warnings...)
	return c, err
}

// Credentials are those of all modules, and of the providers that are called otherwise than their module.
type Credentials struct {
	List     []Credential // modules in the order of the table, then providers; with those that are not there
	Unknown  []string     // entries of credentials.json that nobody here reads
	Warnings []string     // each once
}

// ResolveAll resolves all modules that can have credentials, and the providers of a host config, as Resolve does.
func ResolveAll(env func(string) string, home, userHome string, providers []Provider) (all Credentials) {
	f, warnings := readCredentials(home)
	list := make([]Provider, 0, len(accounts)+len(providers))
	for _, a := range accounts {
		list = append(list, Provider{ID: a.module, Module: a.module})
	}
	for _, p := range providers {
		if i := slices.IndexFunc(list, func(q Provider) bool { return q.ID == p.ID && q.Module == p.Module }); i >= 0 {
			list[i] = p
		} else if accountOf(p.Module) != nil {
			list = append(list, p)
		}
	}
	read := map[string]bool{}
	for _, p := range list {
		a := accountOf(p.Module)
		c, _ := a.resolve(p, env, &f, userHome) // it says itself that it is not there
		all.List = append(all.List, c)
		read[p.ID] = read[p.ID] || a.own(p.ID)
		read[a.module] = read[a.module] || a.file
		for _, w := range c.Warnings {
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
	}
	for _, e := range f.entries {
		if !read[e.name] {
			all.Unknown = append(all.Unknown, e.name)
		}
	}
	all.Warnings = warnings
	return all
}

// own reports whether a provider of this module can have an entry of its own in credentials.json.
func (a *account) own(id string) bool { return id != a.module && accountOf(id) == nil }

// said is the key and the base URL of a provider's config.
func (p Provider) said() (key, baseURL string) {
	members := membersOf(p.Config)
	return memberText(members, keyMember), memberText(members, baseURLMember)
}

func (a *account) resolve(p Provider, env func(string) string, f *credentialFile, userHome string) (Credential, error) {
	id := p.ID
	saidKey, saidAddress := p.said()
	key, address := find(saidKey, a.keys, env), find(saidAddress, a.addresses, env)
	var warnings []string
	if a.own(id) {
		key.or(f.text(id, keyMember), f.path, id)
		address.or(f.text(id, a.member), f.path, id)
	}
	if a.file {
		key.or(f.text(a.module, keyMember), f.path, a.module)
		address.or(f.text(a.module, a.member), f.path, a.module)
	}
	if a.vendor != "" && key.text == "" && userHome != "" {
		path := filepath.Join(userHome, filepath.FromSlash(a.vendor))
		text, err := vendorKey(path)
		if err != nil {
			warnings = append(warnings, err.Error())
		}
		key.or(text, path, "")
	}
	if a.deprecated != "" && key.variable == a.deprecated {
		warnings = append(warnings, fmt.Sprintf("%s is deprecated: export %s instead", a.deprecated, a.keys[0]))
	}
	decisive, missing := &key, ""
	mine := key.said || key.entry != "" && key.entry != a.module
	if a.key != required && !mine { // a key of the provider's own tells more than an address
		decisive = &address
	}
	switch {
	case a.key == required && key.text == "":
		missing = a.keys[0]
	case a.address == required && address.text == "":
		missing = a.addresses[0]
	}
	c := Credential{ID: id, Module: a.module, Resolved: missing == "", Source: decisive.source(), Variable: decisive.variable, Path: decisive.path,
		Entry: decisive.entry, Shared: key.text != "" && !mine && address.said, Key: key.text, Endpoint: address.text, Warnings: warnings}
	if c.Key == "" && c.Resolved {
		c.Key = a.keyless
	}
	if a.module == "ollama" && c.Endpoint != "" {
		c.Endpoint = ollamaURL(c.Endpoint)
	}
	if c.Resolved {
		return c, nil
	}
	c.Variable = missing
	if a.fallback != "" {
		c.Source, c.Endpoint = SourceDefault, a.fallback
		return c, nil
	}
	if !mine {
		c.Source, c.Path, c.Entry = SourceNone, "", ""
	}
	return c, a.missing(id, missing)
}

// missing is the error of a variable that is not set.
func (a *account) missing(id, variable string) error {
	name := a.module
	if a.own(id) {
		name = id
	}
	remedy := "export it"
	switch {
	case !slices.Contains(a.addresses, variable) && (a.file || name != a.module):
		remedy += fmt.Sprintf(", or run: amplifier-agent auth set %s <key>", name)
	case a.file:
		remedy += fmt.Sprintf(", or run: amplifier-agent auth set %s <key> --endpoint <url>", name)
	}
	if name != a.module && slices.Contains(a.addresses, variable) {
		remedy += ", or give the provider a base_url"
	}
	return fmt.Errorf("%w: %s is not set: %s", ErrNoCredential, variable, remedy)
}

// found is a text and where it comes from.
type found struct {
	text, variable, path, entry string
	said                        bool // by the provider's own config
}

// find takes what the provider's own config says, or the first variable with content.
func find(said string, names []string, env func(string) string) found {
	if text := secret.CleanKey(said); text != "" {
		return found{text: text, said: true}
	}
	for _, name := range names {
		if text := secret.CleanKey(env(name)); text != "" {
			return found{text: text, variable: name}
		}
	}
	return found{}
}

// or takes a file's text if there is none yet.
func (f *found) or(text, path, entry string) {
	if text = secret.CleanKey(text); f.text == "" && text != "" {
		f.text, f.path, f.entry = text, path, entry
	}
}

func (f *found) source() Source {
	switch {
	case f.said:
		return SourceConfig
	case f.variable != "":
		return SourceEnv
	case f.path != "":
		return SourceFile
	}
	return SourceNone
}

// ollamaURL makes a URL of what users of Ollama write: a host, with or without a port, which may be the address that its server
// listens on. What cannot be understood stays as it is, for the provider to refuse.
func ollamaURL(address string) string {
	bare := !strings.Contains(address, "://")
	if bare {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	host, port := u.Hostname(), u.Port()
	if port == "" && bare { // a whole URL has the port of its scheme
		port = "11434"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() { // nobody can be reached there
		if host = "127.0.0.1"; ip.To4() == nil {
			host = "::1"
		}
	}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	return strings.TrimSuffix(u.String(), "/")
}

// vendorKey reads the key of Command Code's own file: the member apiKey, or an entry {"type":"api","key"} or {"type":"oauth","access"},
// which is the file or its member commandcode or command-code. No file is no key.
func vendorKey(path string) (string, error) {
	data, err := readCredentialFile(path)
	if len(data) == 0 || err != nil {
		return "", err
	}
	if err := wellFormed(data); err != nil {
		return "", damaged(path, err)
	}
	if key := entryKey(data); key != "" {
		return key, nil
	}
	for _, m := range membersOf(data) {
		if m.name == "commandcode" || m.name == "command-code" {
			if key := entryKey(m.raw); key != "" {
				return key, nil
			}
		}
	}
	return "", nil
}

// entryKey is the key of an entry, which may be the key itself.
func entryKey(raw []byte) string {
	if kindOf(raw) == codec.String {
		return secret.CleanKey(textOf(raw))
	}
	members := membersOf(raw)
	for _, name := range []string{"apiKey", "key", "access"} {
		if key := secret.CleanKey(memberText(members, name)); key != "" {
			return key
		}
	}
	return ""
}
