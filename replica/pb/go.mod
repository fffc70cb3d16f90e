module github.com/kvsteer/kvsteer/replica/pb

go 1.25.0

require (
	github.com/kvsteer/kvsteer v0.0.0
	github.com/stretchr/testify v1.12.1
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/kvsteer/kvsteer => ../..
