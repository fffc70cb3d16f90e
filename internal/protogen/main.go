// Command protogen writes the Go code of one .proto file, as protoc and protoc-gen-go do,
// without a protoc on the machine: protocompile parses, protoc-gen-go's own generator
// writes. Run by go generate.
//
//	protogen -name kvsteer/replica/v1/replica.proto FILE.proto OUTDIR
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("protogen", flag.ContinueOnError)
	name := flags.String("name", "", "the file's name in the descriptor, which all files of a program share: a path that is yours")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *name == "" || flags.NArg() != 2 {
		return errors.New("usage: protogen -name NAME FILE.proto OUTDIR")
	}
	source, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	code, err := generate(ctx, *name, source)
	if err != nil {
		return err
	}
	for base, text := range code {
		if err := os.WriteFile(filepath.Join(flags.Arg(1), base), []byte(text), 0o644); err != nil { //nolint:gosec // source code
			return err
		}
	}
	return nil
}

// generate returns the Go files of a .proto file, by their names without folder.
func generate(ctx context.Context, name string, source []byte) (map[string]string, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: func(path string) (io.ReadCloser, error) {
			if path != name {
				return nil, os.ErrNotExist
			}
			return io.NopCloser(bytes.NewReader(source)), nil
		}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go's
	}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	parameter := "paths=source_relative"
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name}, Parameter: &parameter,
		ProtoFile: []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	})
	if err != nil {
		return nil, err
	}
	for _, f := range plugin.Files {
		if f.Generate {
			internal_gengo.GenerateFile(plugin, f)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	code := make(map[string]string)
	for _, f := range response.GetFile() {
		code[filepath.Base(f.GetName())] = f.GetContent()
	}
	return code, nil
}
