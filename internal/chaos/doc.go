// Package chaos is the fault suite of the library. A [Plan] is a list of steps that is
// drawn from a seed: requests of every kind, clients that leave at every stage, engines
// that die, hang, restart and come back at other addresses, events that get lost, doubled
// and reordered, clocks that jump, limits, sinks, tokenizers, discoverers, policies and
// snapshots that fail, gateways that lose sight of each other. [Run] builds a world of real
// parts around one router or two that tell each other of their work (a gateway,
// engines of fleettest on sockets, events over ZMTP), takes the steps one by one, mends
// all faults, and says which invariant of docs/DESIGN.md did not hold. [Shrink] leaves
// out of a plan what is not needed to break it.
//
// A world is real, so it is not the same twice: goroutines and sockets have their own
// order. A seed gives the same setup and the same steps, and mostly the same end.
//
// What goes wrong only here, in what is not the library's, is an error and no Violation.
package chaos
