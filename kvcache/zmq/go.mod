module github.com/kvsteer/kvsteer/kvcache/zmq

go 1.25.0

require (
	github.com/kvsteer/kvsteer v0.0.0
	github.com/pebbe/zmq4 v1.4.0
)

replace github.com/kvsteer/kvsteer => ../..
