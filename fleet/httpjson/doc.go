// Package httpjson is a fleet.Discoverer that asks a URL for the workers, in JSON.
//
// The answer has one key, workers, with the fields of fleet.Worker as they are
// written in a fleet file (package fleet/file); a list without the key around it
// is taken too. [Decode] describes it. Of any other answer a function of yours
// makes the workers: Discoverer.Decode.
//
//	{"workers": [
//	  {"name": "gpu-0", "url": "http://10.0.0.7:8000", "labels": {"region": "eu"},
//	   "events": [{"events": "tcp://10.0.0.7:5557", "replay": "tcp://10.0.0.7:5558"}]}
//	]}
//
// # Polling
//
// The URL is asked each Interval. An answer's ETag goes back as If-None-Match, so
// that a server which knows it can say 304. Discoverer.Prepare sees every request
// before it is sent, with the header of the last answer: it adds credentials, and
// turns polls into blocking queries where the server has them (its example does
// so for Consul).
//
// # Failure
//
// Whatever is not a complete, valid list removes nobody: no answer, any status
// but 200, a body that is cut, too long, not JSON or of another form, a worker
// that Fleet would refuse. The list in force stays, however long that lasts, and
// Fleet.Err says what is wrong. The pauses between attempts grow to MaxBackoff
// and are random. Only {"workers": []}, with status 200, is a fleet without
// workers.
//
// # Secrets
//
// Errors name the URL without its query and never quote headers or an answer's
// text, apart from what a worker's entry is refused for.
package httpjson
