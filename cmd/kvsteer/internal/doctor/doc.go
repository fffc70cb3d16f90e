// Package doctor examines a fleet the way the router will see it: it connects to
// each worker, asks what the router asks, follows its events, and says check by
// check what works, what doesn't, and what to do about it.
//
// A check is a function of a patient, one worker, that returns findings: a status,
// what was seen, and advice. checks lists them in the order in which they run;
// later ones use what earlier ones learned. docs/doctor.md explains each.
//
// Nothing that is found holds a secret or the text of anybody's prompt.
package doctor
