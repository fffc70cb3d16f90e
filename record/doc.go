// Package record keeps a Router's decisions in a log and reads them back.
//
// A [Recorder] is a hook for [kvsteer.WithHooks]. It writes a line of JSON for each
// decision, with the numbers of every candidate, and one for how each request ended:
// what `kvsteer replay` needs to tell what another policy or another predictor would
// have done. No prompt text, header, token or credential is in it: decisions have
// none, and of errors only the kind is kept.
//
// Recording never holds up a request. What comes faster than it can be written is
// dropped, counted, and said in the log at the place where it is missing.
//
// docs/replay.md describes every field.
package record
