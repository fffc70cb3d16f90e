module github.com/kvsteer/kvsteer/internal/protogen

go 1.25.0

require (
	github.com/bufbuild/protocompile v0.14.1
	github.com/stretchr/testify v1.12.1
	google.golang.org/protobuf v1.36.11
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.8.0 // indirect
)
