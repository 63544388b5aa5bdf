package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/metrics"
	"amplifier-agent/stages"
)

// userRequest is what a coding agent sends in the middle of a conversation.
func userRequest() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":%q,"stream":true,"stream_options":{"include_usage":true},"temperature":0,"messages":[{"role":"system","content":%q}`,
		contractModel, strings.Repeat("You are a coding agent. Answer in short sentences. ", 100))
	for i := range 10 {
		fmt.Fprintf(&b, `,{"role":"user","content":"Go on, step %d."}`, i)
		fmt.Fprintf(&b, `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"read","arguments":"{\"path\":\"file%d.go\"}"}}]}`, i, i)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%d","content":%q}`, i, strings.Repeat("func (s *Store) Get(key string) ([]byte, error)\n", 20))
	}
	b.WriteString(`,{"role":"user","content":"Now mend it."}],"tools":[`)
	for i := range 10 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"Reads a file of the project.","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}`, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// userAnswer is a round that answers it: 100 deltas of reasoning, 200 of text, 50 of a call's arguments, and what ends a round. Ten
// come with a read.
func userAnswer() (list []pipeline.Event, bytes int) {
	add := func(ev pipeline.Event) {
		ev.Clean = true
		if list = append(list, ev); len(list)%11 == 10 {
			list = append(list, pipeline.Event{Kind: pipeline.Flush})
		}
		bytes += len(ev.Text)
	}
	id := []byte("call_00_0123456789abcdef")
	for range 100 {
		add(pipeline.Event{Kind: pipeline.Reasoning, Text: codec.Text("let me see, ")})
	}
	for range 200 {
		add(pipeline.Event{Kind: pipeline.Text, Text: codec.Text(`some words, \"so\" it is `)})
	}
	add(pipeline.Event{Kind: pipeline.ToolStart, ID: id, Name: []byte("tool_1")})
	for range 50 {
		add(pipeline.Event{Kind: pipeline.ToolDelta, ID: id, Text: codec.Text(`0123456789abcdef`)})
	}
	add(pipeline.Event{Kind: pipeline.ToolCall, ID: id, Name: []byte("tool_1"), Text: codec.Text(`{\"path\":\"` + strings.Repeat("0123456789abcdef", 50) + `\"}`)})
	cost, _ := pipeline.ParsePrice("0.000065598")
	usage := pipeline.Usage{Input: 42, CacheRead: 5376, Output: 32, Has: pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput}
	add(pipeline.Event{Kind: pipeline.Step, Step: &pipeline.StepInfo{Reason: pipeline.ReasonToolCalls, Usage: usage, Cost: cost, Generation: "gen_1"}})
	add(pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{Reason: pipeline.ReasonToolCalls, Usage: usage}})
	return list, bytes
}

// wired are the stages of a turn and those of its rounds, as newServer chains them.
func wired(b *testing.B) (turn, round []pipeline.Stage) {
	p, counts := assembled(b), metrics.New()
	return append([]pipeline.Stage{counts.Running()}, p.turn(func() error { return nil }, []stages.Accounts{turnLog{p.log}, counts})...), p.round()
}

// BenchmarkPrepare is a user's request in the Request half of each stage of a turn, and in all of them. One of the allocations is
// the turn itself.
func BenchmarkPrepare(b *testing.B) {
	list, _ := wired(b)
	body := userRequest()
	run := func(name string, list []pipeline.Stage, before pipeline.Turn) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				t := before
				if err := pipeline.Prepare(b.Context(), list, &t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	t := pipeline.Turn{Body: body}
	run("all", list, t)
	for _, s := range list {
		if s.Request == nil {
			continue
		}
		run(s.Name, []pipeline.Stage{s}, t)
		if err := s.Request(context.Background(), &t); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAnswer is a round in the Events half of each stage, and in all of them. The round itself, "none", is there to subtract.
func BenchmarkAnswer(b *testing.B) {
	turn, round := wired(b)
	every := append(turn, round...)
	answer, bytes := userAnswer()
	src := func(yield func(*pipeline.Event, error) bool) {
		var lent pipeline.Event
		var step pipeline.StepInfo
		for i := range answer {
			if lent = answer[i]; lent.Step != nil {
				step = *lent.Step
				lent.Step = &step
			}
			if !yield(&lent, nil) {
				return
			}
		}
	}
	run := func(name string, list ...pipeline.Stage) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range pipeline.Chain(list, &pipeline.Turn{ID: "0123456789abcdef01234567"}, src) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			metric.Events(b, len(answer))
		})
	}
	run("none")
	run("all", every...)
	for _, s := range every {
		if s.Events != nil {
			run(s.Name, s)
		}
	}
}
