package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// sentBody is the body of a request as the API reads it.
type sentBody struct {
	Model       string          `json:"model"`
	MaxTokens   int64           `json:"max_tokens"`
	System      *string         `json:"system"`
	Messages    []sentMessage   `json:"messages"`
	Tools       []sentTool      `json:"tools"`
	Choice      json.RawMessage `json:"tool_choice"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	Stop        []string        `json:"stop_sequences"`
	Stream      bool            `json:"stream"`
}

type sentMessage struct {
	Role    string      `json:"role"`
	Content []sentBlock `json:"content"`
}

type sentBlock struct {
	Type    string          `json:"type"`
	Text    *string         `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	CallID  string          `json:"tool_use_id"`
	IsError bool            `json:"is_error"`
	Content json.RawMessage `json:"content"` // a string, or blocks
	Source  *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

type sentTool struct {
	Name        string         `json:"name"`
	Description *string        `json:"description"`
	InputSchema map[string]any `json:"input_schema"`
}

var (
	goodID    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	goodMedia = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
)

// validate holds a body against the rules of the API, as strictly as the strictest model does.
func validate(body []byte) error {
	var b sentBody
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return err
	}
	switch {
	case b.Model == "" || b.MaxTokens < 1 || !b.Stream:
		return fmt.Errorf("model %q, %d tokens, stream %v", b.Model, b.MaxTokens, b.Stream)
	case b.System != nil && strings.TrimSpace(*b.System) == "":
		return fmt.Errorf("system: blank")
	case b.Temperature != nil && (*b.Temperature > 1 || b.TopP != nil):
		return fmt.Errorf("temperature %v, top_p %v", *b.Temperature, b.TopP)
	case b.Choice != nil && len(b.Tools) == 0:
		return fmt.Errorf("tool_choice without tools")
	case slices.ContainsFunc(b.Stop, func(s string) bool { return strings.TrimSpace(s) == "" }):
		return fmt.Errorf("stop_sequences: blank")
	case len(b.Messages) == 0:
		return fmt.Errorf("messages: none")
	}
	for _, t := range b.Tools {
		if t.InputSchema["type"] != "object" || t.Name == "" {
			return fmt.Errorf("tool %+v", t)
		}
	}
	used := map[string]bool{}
	var due []string // calls of the message before
	for i, m := range b.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Errorf("messages.%d: %s, want %s", i, m.Role, want)
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("messages.%d: no content", i)
		}
		open := due
		due = nil
		for j, c := range m.Content {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			switch {
			case c.Type == "text":
				if err := c.valid(); err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
				if last := i == len(b.Messages)-1 && j == len(m.Content)-1; last && m.Role == "assistant" && strings.TrimSpace((*c.Text)[len(*c.Text)-1:]) == "" {
					return fmt.Errorf("%s: final assistant content ends in white space", at)
				}
			case c.Type == "image" && m.Role == "user":
				if err := c.valid(); err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
			case c.Type == "tool_use" && m.Role == "assistant":
				if !goodID.MatchString(c.ID) || used[c.ID] || !goodID.MatchString(c.Name) || !strings.HasPrefix(string(c.Input), "{") {
					return fmt.Errorf("%s: call %q %q %s", at, c.ID, c.Name, c.Input)
				}
				used[c.ID] = true
				due = append(due, c.ID)
			case c.Type == "tool_result" && m.Role == "user":
				n := slices.Index(open, c.CallID)
				if n < 0 || j > 0 && m.Content[j-1].Type != "tool_result" {
					return fmt.Errorf("%s: result of %q out of place", at, c.CallID)
				}
				open = slices.Delete(slices.Clone(open), n, n+1)
				if err := c.validResult(); err != nil {
					return fmt.Errorf("%s: %w", at, err)
				}
			default:
				return fmt.Errorf("%s: %s in a message of the %s", at, c.Type, m.Role)
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("messages.%d: no result of %q", i, open)
		}
	}
	if len(due) > 0 {
		return fmt.Errorf("messages: no result of %q", due)
	}
	return nil
}

// valid checks a text or an image.
func (c *sentBlock) valid() error {
	if c.Type == "text" {
		if c.Text == nil || strings.TrimSpace(*c.Text) == "" {
			return fmt.Errorf("blank text")
		}
		return nil
	}
	if c.Type != "image" || c.Source == nil || c.Source.Type != "base64" || !slices.Contains(goodMedia, c.Source.MediaType) {
		return fmt.Errorf("image %+v", c)
	}
	if _, err := base64.StdEncoding.DecodeString(c.Source.Data); err != nil || c.Source.Data == "" {
		return fmt.Errorf("image data %q", c.Source.Data)
	}
	return nil
}

func (c *sentBlock) validResult() error {
	var text string
	if json.Unmarshal(c.Content, &text) == nil && strings.TrimSpace(text) != "" || c.Content == nil && !c.IsError {
		return nil
	}
	var blocks []sentBlock
	if err := json.Unmarshal(c.Content, &blocks); err != nil || len(blocks) == 0 {
		return fmt.Errorf("content %s: %w", c.Content, err)
	}
	for _, b := range blocks {
		if c.IsError && b.Type != "text" {
			return fmt.Errorf("all content must be text if is_error")
		}
		if err := b.valid(); err != nil {
			return err
		}
	}
	return nil
}
