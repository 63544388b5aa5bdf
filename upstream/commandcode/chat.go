package commandcode

import (
	"fmt"
	"net/url"

	"amplifier-agent/upstream/chatcompletions"
)

// chatPreset says how the gateway's own chat-completions API is spoken to. What becomes of system messages between others is not
// known, so that they go to the front, and some of its models fail without the reasoning that went before a call.
var chatPreset = chatcompletions.Preset{KeyVariables: []string{"COMMANDCODE_API_KEY"}, MaxTokens: "max_tokens", Reasoning: "reasoning_content"}

// openChat makes what speaks on the provider surface, {base URL}/provider/v1/chat/completions. header goes with every request.
func (p *Provider) openChat(header [][2]string) (*chatcompletions.Provider, error) {
	base, err := url.Parse(p.cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	base = base.JoinPath("provider", "v1")
	base.RawQuery = ""
	c := &p.cfg
	return chatcompletions.New(chatcompletions.Config{
		ID: c.ID, Own: &chatPreset, BaseURL: base.String(), Key: c.Key, Header: header, UserAgent: c.UserAgent,
		Idle: c.Idle, Tries: c.Tries, CAFile: c.CAFile, Dial: c.Dial, Recorder: c.Recorder, MaxLine: c.MaxLine, Log: c.Log, Mask: c.Mask, Judge: p.judge,
	})
}
