package config

import (
	"fmt"
	"strings"
	"time"

	"amplifier-agent/codec"
)

// Type is what the value of a key may be.
type Type uint8

// The types of values.
const (
	Anything Type = iota
	Object        // with the keys below it in the table, or with any if there are none
	Entries       // an object whose members are named freely
	Text
	List  // of strings
	Lists // an object whose members are named freely, each a List
	Flag
	Number // whole
	Choice // of strings
)

// Key is a key of the host config.
type Key struct {
	Path    string // <id> stands for a free name
	Type    Type
	Choices []string // of a Choice
	Min     int64    // of a Number
	Max     int64
	Default string // JSON; "" is nothing
	Doc     string // what it is for
	Effect  string // what it does not do, for those that are accepted but have no effect, or not all of it, yet

	field    func(*Host) any // a pointer to what holds the value; nil for objects that are only there for what is in them
	unit     time.Duration   // of a Number that is a duration
	unknown  Code            // of members that are not in the table; "" lets them pass
	late     bool            // members are judged before unknown ones are
	lenient  bool            // what is no object counts as absent
	nullable bool            // null counts as absent
	invalid  Code            // of a string that is none of the choices; "" is CodeInvalidType
	wrong    Code            // of a value of another type; "" is CodeInvalidType
}

// root is what the top level would be in the table.
var root = Key{Type: Object, unknown: CodeUnknownKey}

const (
	noApproval = "Has no effect on the HTTP face: every tool call is approved."
	noChoice   = "Chooses no provider on the HTTP face, where the model decides: see `providers`."
	unbuilt    = "Not all of these are built yet: the log says which are passed over."
	notYet     = "Has no effect yet."
)

// Keys are all keys of the host config, in the order in which their values are judged: first those that the original knows, in its
// order, then ours. Everything else that knows keys takes them from here: the closed sets, the hints, the defaults, Show, and the
// table in docs/configuration.md.
var Keys = []Key{
	{Path: "mcp", Type: Anything, field: func(h *Host) any { return &h.MCP },
		Doc: "MCP servers.", Effect: notYet},
	{Path: "allowProtocolSkew", Type: Anything, Default: "false", field: func(h *Host) any { return &h.AllowProtocolSkew },
		Doc: "Let clients of another protocol version in. Any value will do: `false`, `null`, `0`, `\"\"`, `[]` and `{}` mean no.", Effect: notYet},

	{Path: "approval", Type: Object, lenient: true,
		Doc: "When tools may run. Other keys in it are let pass; a value that is no object counts as absent.", Effect: noApproval},
	{Path: "approval.patterns", Type: List, Default: "[]", nullable: true, field: func(h *Host) any { return &h.Approval.Patterns },
		Doc: "Calls that need approval.", Effect: noApproval},
	{Path: "approval.mode", Type: Choice, Choices: []string{"yes", "no", "prompt"}, nullable: true, field: func(h *Host) any { return &h.Approval.Mode },
		Doc: "How they get it.", Effect: noApproval},

	{Path: "provider", Type: Object, lenient: true, field: func(h *Host) any { return &h.Provider },
		Doc: "Settings that override those of `providers`. Other keys in it are let pass; a value that is no object counts as absent.", Effect: noChoice},
	{Path: "provider.module", Type: Choice, Choices: Modules, invalid: CodeInvalidModule, wrong: CodeInvalidModule, nullable: true,
		field: func(h *Host) any { return &h.Provider.Module },
		Doc:   "Of which providers. Without it, of the only one; if there are several the block is ignored.", Effect: noChoice},
	{Path: "provider.config", Type: Object, lenient: true, field: func(h *Host) any { return &h.Provider.Config },
		Doc: "The settings: each takes the place of the one of that name in `providers.<id>.config`."},

	{Path: "skills", Type: Object, lenient: true, unknown: CodeInvalidType,
		Doc: "Skills. A value that is no object counts as absent."},
	{Path: "skills.visibility", Type: Object, field: func(h *Host) any { return &h.Skills.Visibility },
		Doc: "Which skills are shown to the model.", Effect: notYet},
	{Path: "skills.skills", Type: List, Default: "[]", nullable: true, field: func(h *Host) any { return &h.Skills.Dirs },
		Doc: "Folders to look for skills in, relative to the folder of this file; `~` is the home folder. Remote sources (`git+…`, `…://…`) are passed over."},

	{Path: "debug", Type: Object, nullable: true, unknown: CodeInvalidType,
		Doc: "For developers."},
	{Path: "debug.rawLlmPayloads", Type: Flag, Default: "false", field: func(h *Host) any { return &h.Debug.RawLLMPayloads },
		Doc: "Keep what is sent to models and what comes back.", Effect: notYet},

	{Path: "providers", Type: Entries, Default: "{}",
		Doc: "The providers of a server, in this order. Without any, every provider that has a credential is used."},
	{Path: "providers.<id>", Type: Object, unknown: CodeUnknownKey, late: true,
		Doc: "A provider under a name of your choice, with which its models can be asked for: `<id>/<model>`."},
	{Path: "providers.<id>.module", Type: Choice, Choices: Modules, invalid: CodeInvalidModule, field: func(h *Host) any { return &h.last().Module },
		Doc: "What it is. Without it the name must say so.", Effect: unbuilt},
	{Path: "providers.<id>.config", Type: Object, field: func(h *Host) any { return &h.last().Config },
		Doc: "Its own settings, such as `base_url`: see below. They hold when its models are listed and at each turn."},

	{Path: "fallbacks", Type: Lists, Default: "{}", field: func(h *Host) any { return &h.Fallbacks },
		Doc: "Models to ask, in turn, instead of one whose provider fails before it has answered: ids of `GET /v1/models`. `*` is for every model without an entry. See [upstreams](upstreams.md)."},

	{Path: "tools", Type: List, Default: "[]", field: func(h *Host) any { return &h.Tools },
		Doc: "Tools that run on the server, by name.", Effect: "None are built yet: a server starts only if the list is empty."},

	{Path: "system", Type: Object, unknown: CodeUnknownKey,
		Doc: "What a model is told before the conversation."},
	{Path: "system.prompt", Type: Text, Default: string(codec.AppendString(nil, DefaultPrompt)), field: func(h *Host) any { return &h.System.Prompt },
		Doc: "The system prompt. An empty one says nothing."},
	{Path: "system.client", Type: Choice, Choices: []string{ClientContain, ClientForward}, Default: `"contain"`, field: func(h *Host) any { return &h.System.Client },
		Doc: "What becomes of a client's system messages: notes of the user below the system prompt, or the system prompt itself, as through a plain proxy."},

	{Path: "sampling", Type: Choice, Choices: []string{SamplingIgnore, SamplingForward}, Default: `"ignore"`, field: func(h *Host) any { return &h.Sampling },
		Doc: "What becomes of `temperature`, `top_p`, `max_tokens`, `stop`, `tool_choice` and `reasoning_effort` in requests."},
	{Path: "streamErrors", Type: Choice, Choices: []string{StreamErrorsInline, StreamErrorsEvent}, Default: `"inline"`, field: func(h *Host) any { return &h.StreamErrors },
		Doc: "How an error in the middle of a stream is told: as text in the answer, followed by its normal end, or as an error object that ends it."},
	{Path: "preflightMs", Type: Number, Max: 60_000, Default: "50", unit: time.Millisecond, field: func(h *Host) any { return &h.Preflight },
		Doc: "How long a stream waits for the upstream's first word, in milliseconds, so that a refusal can still be a status."},

	{Path: "store", Type: Object, unknown: CodeUnknownKey,
		Doc: "What is kept on disk."},
	{Path: "store.transcripts", Type: Flag, Default: "true", field: func(h *Host) any { return &h.Store.Transcripts },
		Doc: "Conversations of clients that name their session."},
	{Path: "store.ledger", Type: Flag, Default: "true", field: func(h *Host) any { return &h.Store.Ledger },
		Doc: "Tokens and cost of each turn."},

	{Path: "limits", Type: Object, unknown: CodeUnknownKey,
		Doc: "Limits of a server."},
	{Path: "limits.bodyBytes", Type: Number, Min: 1 << 10, Max: 1 << 30, Default: "33554432", field: func(h *Host) any { return &h.Limits.BodyBytes },
		Doc: "Of a request's body, also once it is decompressed."},
	{Path: "limits.lineBytes", Type: Number, Min: 1 << 10, Max: 1 << 30, Default: "16777216", field: func(h *Host) any { return &h.Limits.LineBytes },
		Doc: "Of one line of an upstream's answer."},
	{Path: "limits.idleSeconds", Type: Number, Max: 86_400, Default: "900", unit: time.Second, field: func(h *Host) any { return &h.Limits.Idle },
		Doc: "How long an upstream may be silent in the middle of an answer. 0 is for ever."},
	{Path: "limits.tries", Type: Number, Min: 1, Max: 10, Default: "3", field: func(h *Host) any { return &h.Limits.Tries },
		Doc: "How often an upstream is asked at most for one turn, while what it fails with is passing and nothing was answered."},
	{Path: "limits.drainSeconds", Type: Number, Max: 3600, Default: "3", unit: time.Second, field: func(h *Host) any { return &h.Limits.Drain },
		Doc: "How long running answers may take to end when the server is told to stop. `serve stop` and `restart` wait for that, and 2 s more."},
	{Path: "limits.connections", Type: Number, Max: 1 << 20, Default: "0", field: func(h *Host) any { return &h.Limits.Connections },
		Doc: "Of clients at a time. 0 is no limit but the system's."},
	{Path: "limits.fetchImages", Type: Flag, Default: "false", field: func(h *Host) any { return &h.Limits.FetchImages },
		Doc: "Fetch images that a request names by URL, though never from private addresses. Otherwise such a request is refused."},
	{Path: "limits.imageBytes", Type: Number, Min: 1 << 10, Max: 1 << 28, Default: "20971520", field: func(h *Host) any { return &h.Limits.ImageBytes },
		Doc: "Of an image that is fetched."},

	{Path: "telemetry", Type: Object, unknown: CodeUnknownKey,
		Doc: "What a server counts. Nothing is sent anywhere."},
	{Path: "telemetry.metrics", Type: Flag, Default: "true", field: func(h *Host) any { return &h.Telemetry.Metrics },
		Doc: "Serve `/metrics`."},
}

// entry is the key that stands for each provider.
var entry = Key{Path: "providers.<id>"}

// parent is the path of the object that a key is in; "" is the top level.
func (k *Key) parent() string { return k.Path[:max(0, strings.LastIndexByte(k.Path, '.'))] }

// name is the last part of a key's path.
func (k *Key) name() string { return k.Path[strings.LastIndexByte(k.Path, '.')+1:] }

// children are the keys in the object at path.
func children(path string) []*Key {
	var c []*Key
	for i := range Keys {
		if Keys[i].parent() == path {
			c = append(c, &Keys[i])
		}
	}
	return c
}

// Expects says in words what the value may be.
func (k *Key) Expects() string {
	switch k.Type {
	case Anything:
		return "anything"
	case Object, Entries:
		return "an object"
	case Text:
		return "a string"
	case List:
		return "a list of strings"
	case Lists:
		return "an object of lists of strings"
	case Flag:
		return "true or false"
	case Number:
		return fmt.Sprintf("a whole number from %d to %d", k.Min, k.Max)
	case Choice:
		quoted := make([]string, len(k.Choices))
		for i, c := range k.Choices {
			quoted[i] = `"` + c + `"`
		}
		return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
	}
	return ""
}
