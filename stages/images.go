package stages

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"amplifier-agent/pipeline"
)

const (
	maxFetches = 4  // images that are fetched at once for one request
	maxRemote  = 32 // images that one request may name by URL
)

// ImageFetcher brings an image from where its URL says. It refuses addresses that are none of the client's business; its errors
// are for the client.
type ImageFetcher interface {
	FetchImage(ctx context.Context, url string) (mediaType string, data []byte, err error)
}

// Images fetches the images that messages name by URL, so that the upstream gets them as data URLs (rulings 30): each once, at most
// maxRemote of them and maxBytes in all. It stands behind a Decode that lets remote images pass, and behind all that may still
// reject the turn for less.
func Images(f ImageFetcher, maxBytes int64) pipeline.Stage {
	return pipeline.Stage{Name: "images", Request: func(ctx context.Context, t *pipeline.Turn) error {
		remote := map[string][]*pipeline.Part{}
		params := map[string]string{} // where a URL stands first
		for i := range t.Messages {
			for j := range t.Messages[i].Parts {
				p := &t.Messages[i].Parts[j]
				if p.Image == "" || p.MediaType != "" {
					continue
				}
				if _, seen := params[p.Image]; !seen {
					params[p.Image] = index("messages", i) + ".content"
				}
				remote[p.Image] = append(remote[p.Image], p)
			}
		}
		if len(remote) > maxRemote {
			return pipeline.Invalid("messages", fmt.Sprintf("the messages name %d images by URL: %d are fetched at most, send the rest inline", len(remote), maxRemote))
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(maxFetches)
		var total atomic.Int64
		for url, parts := range remote {
			g.Go(func() error { return fetchImage(ctx, f, url, parts, params[url], &total, maxBytes) })
		}
		return g.Wait()
	}}
}

func fetchImage(ctx context.Context, f ImageFetcher, url string, parts []*pipeline.Part, param string, total *atomic.Int64, maxBytes int64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fetch an image: panic: %v\n%s", p, debug.Stack())
		}
	}()
	media, data, err := f.FetchImage(ctx, url)
	if err != nil {
		if e, ok := errors.AsType[*pipeline.Error](err); ok && e.Param == "" {
			e.Param = param
		}
		return err
	}
	if total.Add(int64(len(data))) > maxBytes {
		return &pipeline.Error{Code: pipeline.CodeTooLarge, Origin: pipeline.OriginClient, Param: param,
			Message: fmt.Sprintf("the images that the messages name by URL are larger than %d bytes together", maxBytes)}
	}
	media, _, _ = strings.Cut(media, ";")
	if media = strings.ToLower(strings.TrimSpace(media)); !strings.HasPrefix(media, "image/") {
		return pipeline.Invalid(param, "what the image's URL leads to is of type "+media+", no image")
	}
	inline := "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data)
	for _, p := range parts {
		p.MediaType, p.Image = media, inline
	}
	return nil
}
