package zmq

import "github.com/kvsteer/kvsteer/kvcache/zmtp"

// PublisherConfig says how a [Publisher] behaves; it is that of the pure Go
// publisher, so that one can stand in for the other.
type PublisherConfig = zmtp.PublisherConfig
