package local

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of what is read from a model's directory, in bytes.
const (
	maxTokenizerFile = 256 << 20
	maxOtherFile     = 16 << 20
	maxTemplates     = 64
)

// The files that are read.
const (
	fileTokenizer       = "tokenizer.json"        //nolint:gosec // no credentials
	fileTokenizerConfig = "tokenizer_config.json" //nolint:gosec // no credentials
	fileConfig          = "config.json"
	fileSpecialMap      = "special_tokens_map.json"
	fileAddedTokens     = "added_tokens.json" //nolint:gosec // no credentials
	fileTemplate        = "chat_template.jinja"
	fileOldTemplate     = "chat_template.json" // of multimodal models' processors
	dirTemplates        = "chat_templates"
	templateSuffix      = ".jinja"
)

// ErrRevision says that Model.Revision names nothing in Model.Dir.
var ErrRevision = errors.New("local: revision not found")

// ErrStandIn says that a file is not what its name says but stands in for it: a
// pointer of Git LFS, or a web page that was saved in its place.
var ErrStandIn = errors.New("local: not the file itself")

// HubDir is the directory in which the Hugging Face cache keeps a model, for
// [Model].Dir: root is the cache (usually .cache/huggingface/hub in the home
// directory), model is ORG/NAME.
func HubDir(root, model string) string {
	return filepath.Join(root, "models--"+strings.ReplaceAll(model, "/", "--"))
}

// resolveDir returns the directory that holds the files: dir itself, or the
// snapshot of a revision when dir is a model in a Hugging Face cache.
func resolveDir(dir, revision string) (string, error) {
	snapshots := filepath.Join(dir, "snapshots")
	if !isDir(snapshots) {
		if revision != "" && isDir(dir) {
			return "", fmt.Errorf("%w: Model.Revision is %q, but Dir has no snapshots and so is no model in a Hugging Face cache: "+
				"leave Revision empty, or give HubDir's directory", ErrRevision, revision)
		}
		return dir, nil
	}
	if revision == "" {
		revision = "main"
	}
	for part := range strings.SplitSeq(revision, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("%w: %q is none", ErrRevision, revision)
		}
	}
	commit := revision
	if text, err := readFile(filepath.Join(dir, "refs", filepath.FromSlash(revision)), maxOtherFile); err == nil {
		commit = strings.TrimSpace(string(text))
	}
	at := filepath.Join(snapshots, commit)
	if strings.ContainsAny(commit, `/\`) || commit == "" || commit == ".." || !isDir(at) {
		return "", fmt.Errorf("%w: no snapshot of %q in %s: download it, or name one that is there", ErrRevision, revision, snapshots)
	}
	return at, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// stamp tells cheaply whether files may have changed.
type stamp struct {
	name string
	size int64
	time time.Time
}

// files are the contents of a model's directory that matter, by name.
type files struct {
	dir  string
	text map[string][]byte
	// names are all files in the directory: some matter by their presence.
	names  []string
	stamps []stamp
	// hash identifies the contents.
	hash string
}

func (f *files) has(pattern string) bool {
	return slices.ContainsFunc(f.names, func(name string) bool {
		ok, err := filepath.Match(pattern, name)
		return err == nil && ok
	})
}

// list returns the names of the files that are read, and their stamps.
func list(dir string) (names []string, stamps []stamp, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("local: model directory: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	read := []string{fileTokenizer, fileTokenizerConfig, fileConfig, fileSpecialMap, fileAddedTokens, fileTemplate, fileOldTemplate}
	templates, err := os.ReadDir(filepath.Join(dir, dirTemplates))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("local: chat templates: %w", err)
	}
	for _, e := range templates {
		if strings.HasSuffix(e.Name(), templateSuffix) {
			read = append(read, dirTemplates+"/"+e.Name())
		}
	}
	if len(templates) > maxTemplates {
		return nil, nil, fmt.Errorf("local: more than %d chat templates", maxTemplates)
	}
	for _, name := range read {
		info, statErr := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		if statErr != nil || info.IsDir() {
			continue
		}
		stamps = append(stamps, stamp{name, info.Size(), info.ModTime()})
	}
	return names, stamps, nil
}

// readFiles reads a model's directory.
func readFiles(dir string) (*files, error) {
	names, stamps, err := list(dir)
	if err != nil {
		return nil, err
	}
	f := &files{dir: dir, names: names, stamps: stamps, text: make(map[string][]byte, len(stamps))}
	h := sha256.New()
	for _, s := range stamps {
		limit := int64(maxOtherFile)
		if s.name == fileTokenizer {
			limit = maxTokenizerFile
		}
		text, readErr := readFile(filepath.Join(dir, filepath.FromSlash(s.name)), limit)
		if readErr != nil {
			return nil, readErr
		}
		if standIn := checkGenuine(s.name, text); standIn != nil {
			return nil, standIn
		}
		f.text[s.name] = text
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		_, _ = io.WriteString(h, s.name+"\x00") // a hash never fails
		_, _ = h.Write(size[:])
		_, _ = h.Write(text)
	}
	const enough = 16
	f.hash = hex.EncodeToString(h.Sum(nil)[:enough])
	return f, nil
}

// checkGenuine refuses what a download that went wrong leaves behind, by what is
// wrong: as JSON it would only be malformed.
func checkGenuine(name string, text []byte) error {
	const enough = 64
	start := bytes.ToLower(bytes.TrimSpace(text[:min(len(text), enough)]))
	switch {
	case bytes.HasPrefix(start, []byte("version https://git-lfs.github.com/")):
		return fmt.Errorf("%w: %s is a pointer of Git LFS: fetch what it points to, for example by git lfs pull", ErrStandIn, name)
	case bytes.HasPrefix(start, []byte("<!doctype html")), bytes.HasPrefix(start, []byte("<html")):
		return fmt.Errorf("%w: %s is a web page, such as a login or an error: download the file anew", ErrStandIn, name)
	default:
		return nil
	}
}

func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator says where the files are
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("local: %w", err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("local: %s is larger than %d bytes", filepath.Base(path), limit)
	default:
		return text, nil
	}
}
