// Package oracle asks the Rust tokenizers, through oracle.py, for the ids of texts.
package oracle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// Item is a text, and whether special tokens are added to it.
type Item struct {
	Text    string
	Special bool
}

// Oracle is a running oracle.py. It isn't safe for concurrent use.
type Oracle struct {
	Version string // of the library
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errs    bytes.Buffer
}

// ErrRefused says that the library can't load a file.
var ErrRefused = errors.New("oracle: the library refuses the file")

// failed takes the place of a count.
const failed = 1<<32 - 1

// Start runs script with python on a tokenizer file, or on none until Load.
func Start(python, script string, file ...string) (*Oracle, error) {
	argv := append([]string{script}, file...)
	o := &Oracle{cmd: exec.Command(python, argv...)} //nolint:gosec,noctx // Close ends it; what to run is the caller's choice
	o.cmd.Stderr = &o.errs
	in, err := o.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	err = o.cmd.Start()
	if err != nil {
		return nil, err
	}
	o.in, o.out = in, bufio.NewReaderSize(out, 1<<20)
	n, err := o.uint32()
	if err != nil {
		return nil, errors.Join(o.Close(), fmt.Errorf("%w: %s", err, o.errs.String()))
	}
	version := make([]byte, n)
	if _, err = io.ReadFull(o.out, version); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.Version = string(version)
	return o, nil
}

// Close ends it.
func (o *Oracle) Close() error {
	err := o.in.Close()
	return errors.Join(err, o.cmd.Wait())
}

// Load has it go on with another file.
func (o *Oracle) Load(file string) error {
	frame := binary.LittleEndian.AppendUint32(nil, failed)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(file)))
	_, err := o.in.Write(append(frame, file...))
	var refused uint32
	if err == nil {
		refused, err = o.uint32()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", err, o.errs.String())
	case refused != 0:
		return ErrRefused
	default:
		return nil
	}
}

// Ask returns the ids of each text; nil where the library failed.
func (o *Oracle) Ask(items []Item) ([][]uint32, error) {
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(items)))
	for _, x := range items {
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(x.Text)))
		special := byte(0)
		if x.Special {
			special = 1
		}
		frame = append(append(frame, special), x.Text...)
	}
	if _, err := o.in.Write(frame); err != nil {
		return nil, fmt.Errorf("%w: %s", err, o.errs.String())
	}
	all := make([][]uint32, len(items))
	for i := range all {
		n, err := o.uint32()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, o.errs.String())
		}
		if n == failed {
			continue
		}
		ids := make([]uint32, n)
		for k := range ids {
			if ids[k], err = o.uint32(); err != nil {
				return nil, err
			}
		}
		all[i] = ids
	}
	return all, nil
}

func (o *Oracle) uint32() (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(o.out, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b[:]), nil
}
