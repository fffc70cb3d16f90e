// Package predict is the mathematics of latency prediction: a linear model of
// what an engine does, refitted with every observation ([Fit]), the shape of
// that model for the time to first token ([Load], [Surface]), and a correction
// that learns how far it is off, and how widely, at each height ([Calibration]).
//
// Everything is monotone by construction: more work never means less time.
// Times are in seconds. Only Surface and Curve, which are not modified once made,
// are safe for concurrent use.
package predict
