package corpus

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Golden is what the Rust tokenizers made of a text.
type Golden struct {
	Tokenizer string   `json:"n"`
	Text      string   `json:"t"`
	Special   bool     `json:"s,omitempty"` // special tokens were added
	IDs       []uint32 `json:"i"`
}

// WriteGoldens writes records as JSON lines, compressed.
func WriteGoldens(path string, records []Golden) (err error) {
	f, err := os.Create(path) //nolint:gosec // a tool of tests writes where it is told to
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	e := json.NewEncoder(z)
	e.SetEscapeHTML(false)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return z.Close()
}

// ReadGoldens reads what WriteGoldens wrote.
func ReadGoldens(path string) (out []Golden, err error) {
	f, err := os.Open(path) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(z)
	for {
		var g Golden
		switch err := d.Decode(&g); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		out = append(out, g)
	}
}
