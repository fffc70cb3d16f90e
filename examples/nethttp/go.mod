module github.com/kvsteer/kvsteer/examples/nethttp

go 1.25.0

require (
	github.com/kvsteer/kvsteer v0.0.0
	github.com/kvsteer/kvsteer/integrations/prometheus v0.0.0
	github.com/kvsteer/kvsteer/tenancy/redis v0.0.0
	github.com/prometheus/client_golang v1.24.1
	github.com/redis/go-redis/v9 v9.17.3
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v4 v4.0.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/kvsteer/kvsteer/replica/pb v0.0.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/kvsteer/kvsteer => ../..
	github.com/kvsteer/kvsteer/integrations/prometheus => ../../integrations/prometheus
	github.com/kvsteer/kvsteer/replica/pb => ../../replica/pb
	github.com/kvsteer/kvsteer/tenancy/redis => ../../tenancy/redis
)
