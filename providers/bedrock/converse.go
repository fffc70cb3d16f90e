package bedrock

import "github.com/kvsteer/kvsteer/internal/dialect"

// converseName is the API's name in messages.
const converseName = "converse"

// converse is the codec of the operations Converse and ConverseStream, for services.
type converse struct {
	// family is whose models these are, if their ids don't say it.
	family string
	// s3 are the prefixes below which clients may name objects.
	s3 []string
}

var _ dialect.Service = converse{}

func (converse) Name() string { return converseName }
