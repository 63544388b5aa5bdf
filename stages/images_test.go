package stages_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

// fetched is an ImageFetcher that knows what lies where.
type fetched map[string]string

func (f fetched) FetchImage(_ context.Context, url string) (string, []byte, error) {
	media, ok := f[url]
	if !ok {
		return "", nil, pipeline.Invalid("", "cannot fetch "+url)
	}
	return media, []byte{0, 1}, nil
}

func imageTurn(t *testing.T, remote bool, url string) (*pipeline.Turn, error) {
	t.Helper()
	turn := &pipeline.Turn{Body: []byte(fmt.Sprintf(
		`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":%q}}]}]}`, url))}
	if err := stages.Decode(stages.DecodeOptions{RemoteImages: remote}).Request(t.Context(), turn); err != nil {
		return turn, err
	}
	f := fetched{"https://h/a.png": "Image/PNG; q=1", "http://h/page": "text/html"}
	return turn, stages.Images(f, 1<<20).Request(t.Context(), turn)
}

// TestImages: a remote image is brought in place; what cannot be brought, or is no image, names the message.
func TestImages(t *testing.T) {
	turn, err := imageTurn(t, true, "https://h/a.png")
	if err != nil {
		t.Fatal(err)
	}
	if got := turn.Messages[1].Parts[1]; got.Image != "data:image/png;base64,AAE=" || got.MediaType != "image/png" {
		t.Errorf("got %+v", got)
	}
	for _, url := range []string{"http://h/page", "HTTPS://h/none"} {
		_, err := imageTurn(t, true, url)
		wantError(t, err, pipeline.CodeInvalidRequest, "messages[1].content", "")
	}
	for _, url := range []string{"file:///etc/passwd", "ftp://h/a.png", "//h/a.png"} {
		_, err := imageTurn(t, true, url)
		wantError(t, err, pipeline.CodeInvalidRequest, "messages[1].content[1].image_url.url", "")
	}
	_, err = imageTurn(t, false, "https://h/a.png")
	wantError(t, err, pipeline.CodeInvalidRequest, "messages[1].content[1].image_url.url", "")
	if inline, err := imageTurn(t, true, "data:image/gif;base64,AA=="); err != nil || inline.Messages[1].Parts[1].MediaType != "image/gif" {
		t.Errorf("a data URL: %v", err)
	}
	broken := errors.New("broken")
	turn.Messages[1].Parts[1] = pipeline.Part{Image: "https://h/a.png"}
	if err := stages.Images(failing{broken}, 1<<20).Request(t.Context(), turn); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestImagesAreBounded: each is fetched once; their number and their sum have a limit.
func TestImagesAreBounded(t *testing.T) {
	turn := func(urls ...string) *pipeline.Turn {
		m := pipeline.Message{Role: pipeline.RoleUser}
		for _, u := range urls {
			m.Parts = append(m.Parts, pipeline.Part{Image: u})
		}
		return &pipeline.Turn{Messages: []pipeline.Message{m}}
	}
	var fetches counting
	twice := turn("https://h/a", "https://h/a")
	if err := stages.Images(&fetches, 10).Request(t.Context(), twice); err != nil || fetches.n.Load() != 1 || twice.Messages[0].Parts[1].MediaType != "image/png" {
		t.Errorf("error %v, %d fetches, %+v", err, fetches.n.Load(), twice.Messages[0].Parts)
	}
	err := stages.Images(&fetches, 3).Request(t.Context(), turn("https://h/a", "https://h/b"))
	wantError(t, err, pipeline.CodeTooLarge, "messages[0].content", "")
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprint("https://h/", i))
	}
	err = stages.Images(&fetches, 1<<20).Request(t.Context(), turn(many...))
	wantError(t, err, pipeline.CodeInvalidRequest, "messages", "")
	err = stages.Images(panicking{}, 1<<20).Request(t.Context(), turn("https://h/a"))
	if err == nil || !strings.Contains(err.Error(), "panic: fetch") {
		t.Errorf("got %v", err)
	}
}

// counting is an ImageFetcher that finds two bytes everywhere.
type counting struct{ n atomic.Int64 }

func (c *counting) FetchImage(context.Context, string) (string, []byte, error) {
	c.n.Add(1)
	return "image/png", []byte{1, 2}, nil
}

type panicking struct{}

func (panicking) FetchImage(context.Context, string) (string, []byte, error) { panic("fetch") }

type failing struct{ err error }

func (f failing) FetchImage(context.Context, string) (string, []byte, error) { return "", nil, f.err }
