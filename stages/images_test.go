package stages_test

import (
	"context"
	"errors"
	"fmt"
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
	return turn, stages.Images(f).Request(t.Context(), turn)
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
	if err := stages.Images(failing{broken}).Request(t.Context(), turn); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) FetchImage(context.Context, string) (string, []byte, error) { return "", nil, f.err }
