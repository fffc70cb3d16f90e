package kvsteer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// DefaultSnapshotWait is how long [New] waits for a snapshot, all sources together.
const DefaultSnapshotWait = 10 * time.Second

// SnapshotSource opens a snapshot that a router wrote with [Router.Export]. It returns,
// and what it returns ends, when ctx does.
type SnapshotSource func(ctx context.Context) (io.ReadCloser, error)

// WithSnapshot lets a new router begin with what another one knows of the workers'
// caches, or with what it knew itself before it was restarted. The sources are tried in
// order until one has a snapshot that can be read; [SnapshotFrom] asks a peer,
// [SnapshotFile] reads a file. [New] waits for them, for at most [DefaultSnapshotWait].
// Where none serves, the log says why and the router starts cold: it is never an error.
//
// Of each worker instance it takes what the snapshot says of one with the same
// [fleet.Member.SharedID], also if it is discovered within five minutes. That counts
// as approximate, and decisions say that it is not confirmed, until the worker's events
// prove that its engine is the one of then and what has changed since, or else it is
// dropped. Of a worker whose events are not followed, nobody could tell that: there it
// counts only if its Discoverer gives epochs, and for 20 minutes.
func WithSnapshot(sources ...SnapshotSource) Option {
	return optionFunc(func(o *options) { o.snapshots = append(o.snapshots, sources...) })
}

// SnapshotFile is a snapshot in a file, such as [Router.SaveSnapshot] writes.
func SnapshotFile(path string) SnapshotSource {
	return func(context.Context) (io.ReadCloser, error) {
		f, err := os.Open(path) //nolint:gosec // the caller names it
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; SaveSnapshot writes one", err)
		}
		return f, err //nolint:wrapcheck // it names the file
	}
}

// SnapshotFrom is the snapshot of a peer that serves it with [SnapshotHandler] at url.
// client adds credentials, if the peer wants any; nil is a plain one.
func SnapshotFrom(url string, client *http.Client) SnapshotSource {
	if client == nil {
		client = &http.Client{} // the context bounds it
	}
	return func(ctx context.Context) (io.ReadCloser, error) {
		for {
			resp, err := ask(ctx, client, url)
			switch {
			case err != nil:
				return nil, err
			case resp.StatusCode == http.StatusOK:
				return resp.Body, nil
			}
			_ = resp.Body.Close()
			err = fmt.Errorf("a peer answers with status %d; does it serve a SnapshotHandler there, and let this router in?", resp.StatusCode)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
				return nil, err
			}
			select { // it serves another: replicas of one gateway start together
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, err
			}
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the address
	}
	return client.Do(req) //nolint:wrapcheck // it names the address, without a password
}

// Export writes a snapshot of what is known of the workers' caches, for [WithSnapshot]
// of another router: for each cached block that events told of, its key, in some 17
// bytes. It holds hashes and names of workers, neither text nor tokens. What was only
// sent to a worker, as is all that is known without events, is not in it. Picks go on meanwhile.
// The error is w's, or a [CodeClosed]: export before Close.
func (r *Router) Export(w io.Writer) error {
	if r.closed.Load() {
		return &Error{Code: CodeClosed, Message: "the router was closed"}
	}
	return r.index.Export(w) //nolint:wrapcheck // it says what it was doing
}

// SnapshotWritable says what would keep [Router.SaveSnapshot] from making a file at path:
// at the start, where somebody reads it.
func SnapshotWritable(path string) error {
	f, err := snapshotTemp(path)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("kvsteer: no snapshot can be saved there: %w", err)
	}
	return nil
}

func snapshotTemp(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
}

// SaveSnapshot exports to a file, which takes path's place when it is complete. Call it
// before Close, and now and then for when there is none. One call at a time for a path.
func (r *Router) SaveSnapshot(path string) (err error) {
	f, err := snapshotTemp(path)
	if err != nil {
		return fmt.Errorf("kvsteer: save a snapshot: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("kvsteer: save a snapshot: %w", err)
		}
	}()
	const buffer = 1 << 16
	b := bufio.NewWriterSize(f, buffer)
	for _, step := range []func() error{
		func() error { return r.Export(b) }, b.Flush, f.Sync, f.Close,
		func() error {
			if r.closed.Load() { // while it was written: it may lack anything
				return &Error{Code: CodeClosed, Message: "the router was closed"}
			}
			return os.Rename(f.Name(), path)
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
