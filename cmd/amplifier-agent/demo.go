package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"amplifier-agent/codec"
)

func demoCommand() *cobra.Command {
	var f serveFlags
	var raw bool
	c := &cobra.Command{
		Use:   "demo [PROMPT]",
		Short: "Try the server with its built-in gateway simulator: no key, no network",
		Long: "Without a prompt, demo serves the chat-completions API in front of the simulator and prints a curl line to try.\n" +
			"With a prompt it asks its own server over a real socket, prints the answer as it streams in, and exits.",
		RunE: func(c *cobra.Command, args []string) error {
			f.demo = true
			prompt := strings.TrimSpace(strings.Join(args, " "))
			env := getenv
			if prompt != "" { // it is for one question of its own: any port of this machine will do
				env = func(name string) string {
					switch name {
					case envPrefix + "BIND":
						return defaultBind
					case envPrefix + "PORT":
						return "0"
					}
					return getenv(name)
				}
			}
			o, err := f.resolve(c, env)
			if err != nil {
				return err
			}
			return withServer(c.Context(), o, c.ErrOrStderr(), prompt == "", func(ctx context.Context, url string) error {
				if prompt == "" {
					fmt.Fprintf(c.ErrOrStderr(), "\ntry it:\n  %s\n", curlLine(url, o.key))
					<-ctx.Done()
					return nil
				}
				return ask(ctx, url, o.key, prompt, raw, c.OutOrStdout(), c.ErrOrStderr())
			})
		},
	}
	f.register(c)
	c.Flags().BoolVar(&raw, "raw", false, "with a prompt: print the server-sent events as they are")
	_ = c.Flags().MarkHidden("demo")
	return c
}

// demoModel is one that the simulator serves.
const demoModel = "deepseek/deepseek-v4-pro"

func curlLine(url, key string) string {
	return fmt.Sprintf(`curl -N %s/v1/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"What are you?"}]}'`,
		url, key, demoModel)
}

// ask is a chat-completions client in a few lines: reasoning and usage go to stderr, the answer to stdout.
func ask(ctx context.Context, url, key, prompt string, raw bool, stdout, stderr io.Writer) error {
	body := codec.AppendString([]byte(`{"model":"`+demoModel+`","stream":true,"messages":[{"role":"user","content":`), prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(append(body, `}]}`...)))
	if err != nil {
		return failed(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy: it is this process that it asks
	resp, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return failed(fmt.Errorf("the server answered %s: %s", resp.Status, text))
	}
	if raw {
		_, err := io.Copy(stdout, resp.Body)
		return err
	}
	type chunk struct {
		Choices []struct {
			Delta struct {
				Content   string `json:"content"`
				Reasoning string `json:"reasoning_content"`
			} `json:"delta"`
		} `json:"choices"`
		Usage codec.RawMessage `json:"usage"`
	}
	var usage codec.RawMessage
	thinking := false
	fmt.Fprintln(stderr)
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		data, found := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if found && string(data) != "[DONE]" {
			var ch chunk
			if err := codec.Unmarshal(data, &ch); err != nil {
				return failed(err)
			}
			for _, c := range ch.Choices {
				if c.Delta.Content != "" && thinking {
					fmt.Fprint(stderr, "\n\n")
				}
				thinking = c.Delta.Reasoning != "" || thinking && c.Delta.Content == ""
				fmt.Fprint(stderr, c.Delta.Reasoning)
				fmt.Fprint(stdout, c.Delta.Content)
			}
			usage = ch.Usage
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return failed(err)
		}
	}
	fmt.Fprintln(stdout)
	fmt.Fprintf(stderr, "usage: %s\n", usage)
	return nil
}
