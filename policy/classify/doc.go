// Package classify finds out what a prompt holds, so that policies may ask for
// it by name: whether there is personal data in it, or a secret, or how long
// and involved it is.
//
// A [Classifier] produces tags in three states (see [policy.TagState]). Absent is
// a promise: all that the request says was read, and nothing was found. Whatever
// can't be read, be it an image, token ids, a text that is too long, a classifier
// that failed or took too long, makes a tag unknown, which policies treat as the
// worse of the two. A tag is present as soon as one classifier says so.
//
//	request body --Extract--> Input --Set--> Result: tags, and findings as counts and offsets
//
// [Extract] reads the texts of a request, unescaped, and says what it could not
// read. A [Set] runs classifiers over them, each with a deadline of its own, with
// its panics contained, and remembers what it learned about each message, so that
// a long conversation is classified once. [Scanner] finds personal data and secrets
// by their structure; [LengthHeuristic] guesses complexity from length and form;
// [Moderation], [Labels] and [Presidio] ask a service; [Header] takes the word of
// a trusted gateway; [Func] is your own code.
//
// No result, error or cache holds any text of a prompt. What is not detected is
// said in docs/classify.md.
package classify
