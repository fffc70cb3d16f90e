module github.com/kvsteer/kvsteer/kvcache/zmq

go 1.25.0

require (
	github.com/kvsteer/kvsteer v0.0.0
	github.com/pebbe/zmq4 v1.4.0
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect

replace github.com/kvsteer/kvsteer => ../..
