module github.com/kvsteer/kvsteer/tenancy/redis

go 1.25.0

require (
	github.com/kvsteer/kvsteer v0.0.0
	github.com/kvsteer/kvsteer/replica/pb v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace (
	github.com/kvsteer/kvsteer => ../..
	github.com/kvsteer/kvsteer/replica/pb => ../../replica/pb
)
