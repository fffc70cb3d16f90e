module github.com/kvsteer/kvsteer/kvcache/hftok

go 1.25.0

require (
	github.com/daulet/tokenizers v1.27.0
	github.com/kvsteer/kvsteer v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/kvsteer/kvsteer => ../..
