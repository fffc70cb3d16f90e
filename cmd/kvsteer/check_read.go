package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvsteer/kvsteer/policy"
)

// exitUnreadable is the exit code of `kvsteer check` for what can't be read.
const exitUnreadable = 2

// codeUnreadable is the code of a finding about a file that can't be read at all.
const codeUnreadable = "unreadable"

// maxCheckFiles bounds a directory: one that has more is probably not the one meant.
const maxCheckFiles = 10_000

var errTooManyFiles = errors.New("there are too many files; name a directory that holds policies")

// read reads all files. The error is about the arguments, what is wrong with a file is
// a finding.
func (r *checkRun) read(ctx context.Context, args []string) error {
	seen := make(map[string]bool)
	for _, arg := range args {
		if arg == "-" {
			r.parse("-", r.stdin)
			continue
		}
		names, err := r.filesOf(arg)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if clean := filepath.Clean(name); !seen[clean] {
				seen[clean] = true
				r.file(name)
			}
		}
	}
	return nil
}

// filesOf lists the files of one argument.
func (r *checkRun) filesOf(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if err != nil || !info.IsDir() {
		return []string{arg}, nil //nolint:nilerr // reading it says what is wrong
	}
	var names []string
	err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			r.unread(path, err)
			return nil
		case d.IsDir():
			// Hidden ones are not for people: .git, and the versions of a ConfigMap,
			// whose current one is linked to.
			if path != arg && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
		case isPolicyFile(d.Name()):
			names = append(names, path)
			if len(names) > maxCheckFiles {
				return errTooManyFiles
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", arg, err)
	case len(names) == 0:
		return nil, fmt.Errorf("%s: no *.yaml, *.yml or *.json file is in the directory", arg)
	default:
		return names, nil
	}
}

func isPolicyFile(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// unread reports a file that can't be read at all.
func (r *checkRun) unread(name string, err error) {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // the name is said already
	}
	r.unreadable = true
	r.findings = append(r.findings, policy.Finding{
		File: name, Severity: policy.SeverityError, Code: codeUnreadable, Message: "can't be read: " + err.Error(),
	})
}

var errNotRegular = errors.New("not a regular file")

func (r *checkRun) file(name string) {
	// Asked before opening, because opening a named pipe waits for a writer.
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		r.unread(name, err)
		return
	}
	f, err := os.Open(name) //nolint:gosec // the user's own file, named on the command line
	if err != nil {
		r.unread(name, err)
		return
	}
	defer f.Close() //nolint:errcheck // it was only read
	r.parse(name, f)
}

// parse reads one file, of which no more than one byte beyond what is allowed.
func (r *checkRun) parse(name string, from io.Reader) {
	data, err := io.ReadAll(io.LimitReader(from, policy.MaxFileBytes+1))
	if err != nil {
		r.unread(name, err)
		return
	}
	f, findings := policy.Parse(name, data)
	r.files = append(r.files, f)
	r.findings = append(r.findings, findings...)
	for i := range findings {
		switch findings[i].Code {
		case policy.CodeSyntax, policy.CodeFileTooLarge, policy.CodeTooComplex:
			r.unreadable = true
		default:
		}
	}
}
