package chatcompletions

// Preset says how to reach a kind of upstream, and in what it differs from the others.
type Preset struct {
	BaseURL       string   // "" must be configured
	BaseVariables []string // environment variables for it, the better one first
	Scheme        string   // of a base URL that names none
	Port          string   // of a base URL that names neither scheme nor port
	Path          string   // of a base URL that has none

	KeyVariables []string    // environment variables for the key, the better one first
	KeyOptional  bool        // there may be no key
	Placeholder  string      // sent as the key if there is none
	KeyHeader    string      // the field that takes the key as it is; "" means Authorization, as a bearer token
	Header       [][2]string // sent with every request

	// Reseller says who it is, for people, if its models are those of others: they are always served under its name (rulings 12).
	Reseller string
	// Deployments: models are what the user has deployed and named, and stand in the path. Nobody lists them, so Config.Models must.
	// With a base URL that ends in /v1 the name stands in the body as everywhere else.
	Deployments bool
	Query       string // of requests to deployments, unless the base URL brings one

	MaxTokens string // name of the member that bounds the answer
	Reasoning string // name of the member in which an assistant message replays reasoning (rulings 16); "" if it takes none
	Developer bool   // it knows the role developer, and system messages between others
	Initiator bool   // it wants to know in the header whether a person or a tool asks, and whether there are images
	// Signature goes with each tool call of the history, as the model's own signature of the thought that led to it, which does not
	// reach clients and so does not come back; "" if none is asked for.
	Signature string
}

// PresetPlain is the preset for a base URL of which nothing is known.
const PresetPlain = Name

const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens" // what OpenAI's reasoning models insist on
	reasoningContent    = "reasoning_content"
	reasoning           = "reasoning"
)

// Presets are the upstreams that we know, by name. The table is read only.
var Presets = map[string]Preset{
	PresetPlain: {
		BaseVariables: []string{"CHAT_COMPLETIONS_BASE_URL"},
		KeyVariables:  []string{"CHAT_COMPLETIONS_API_KEY"}, KeyOptional: true,
		MaxTokens: maxTokens, Reasoning: reasoningContent,
	},
	"openai": {
		BaseURL: "https://api.openai.com/v1", Path: "/v1",
		KeyVariables: []string{"OPENAI_API_KEY"},
		MaxTokens:    maxCompletionTokens, Developer: true,
	},
	"azure-openai": {
		BaseVariables: []string{"AZURE_OPENAI_ENDPOINT"}, Path: "/openai",
		KeyVariables: []string{"AZURE_OPENAI_API_KEY", "AZURE_OPENAI_KEY"}, KeyHeader: "api-key",
		Deployments: true, Query: "api-version=2024-10-21", // the first that reports usage in a stream
		MaxTokens: maxCompletionTokens, Developer: true,
	},
	"gemini": {
		BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", Path: "/v1beta/openai",
		KeyVariables: []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"},
		MaxTokens:    maxTokens, Signature: "skip_thought_signature_validator", // without one Gemini 3 refuses calls
	},
	"github-copilot": {
		BaseURL:      "https://api.githubcopilot.com",
		KeyVariables: []string{"GITHUB_TOKEN"}, Header: [][2]string{{"Openai-Intent", "conversation-edits"}},
		Reseller: "GitHub", MaxTokens: maxTokens, Initiator: true,
	},
	"ollama": {
		BaseURL: "http://localhost:11434/v1", BaseVariables: []string{"OLLAMA_HOST", "OLLAMA_BASE_URL"}, Scheme: "http", Port: "11434", Path: "/v1",
		KeyOptional: true,
		MaxTokens:   maxTokens, Reasoning: reasoning,
	},
	"vllm": {
		BaseVariables: []string{"VLLM_BASE_URL"}, Path: "/v1",
		KeyVariables: []string{"VLLM_API_KEY"}, KeyOptional: true, Placeholder: "EMPTY",
		MaxTokens: maxTokens, Reasoning: reasoningContent,
	},
}
