package stages

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"golang.org/x/sync/errgroup"

	"amplifier-agent/pipeline"
)

// maxFetches is how many images of one request are fetched at once.
const maxFetches = 4

// ImageFetcher brings an image from where its URL says. It refuses addresses that are none of the client's business; its errors
// are for the client.
type ImageFetcher interface {
	FetchImage(ctx context.Context, url string) (mediaType string, data []byte, err error)
}

// Images fetches the images that messages name by URL, so that the upstream gets them as data URLs (rulings 30). It stands behind
// a Decode that lets remote images pass, and behind all that may still reject the turn for less.
func Images(f ImageFetcher) pipeline.Stage {
	return pipeline.Stage{Name: "images", Request: func(ctx context.Context, t *pipeline.Turn) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(maxFetches)
		for i := range t.Messages {
			for j := range t.Messages[i].Parts {
				p := &t.Messages[i].Parts[j]
				if p.Image == "" || p.MediaType != "" {
					continue
				}
				param := index("messages", i) + ".content"
				g.Go(func() error { return fetchImage(ctx, f, p, param) })
			}
		}
		return g.Wait()
	}}
}

func fetchImage(ctx context.Context, f ImageFetcher, p *pipeline.Part, param string) error {
	media, data, err := f.FetchImage(ctx, p.Image)
	if err != nil {
		if e, ok := errors.AsType[*pipeline.Error](err); ok && e.Param == "" {
			e.Param = param
		}
		return err
	}
	media, _, _ = strings.Cut(media, ";")
	if media = strings.ToLower(strings.TrimSpace(media)); !strings.HasPrefix(media, "image/") {
		return pipeline.Invalid(param, "what the image's URL leads to is of type "+media+", no image")
	}
	p.MediaType = media
	p.Image = "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data)
	return nil
}
