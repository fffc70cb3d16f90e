// Package dns is a fleet.Discoverer that asks the DNS for the workers.
//
// Discoverer.Name is looked up as address records (A, AAAA), whose port is given,
// or as SRV records, which have ports. Every address and port is one worker, named
// by them: "10.0.0.7:8000", "[2001:db8::7]:8000". The Fleet mints its epoch, so
// that an address which left and came back is a new instance that inherits
// nothing. Discoverer.Worker makes another worker of it.
//
// # Which records
//
// Of address records, A are taken, and AAAA where there are no A: a machine with
// both would be two workers. Discoverer.Family changes that. Of SRV records those
// of the lowest priority are taken, as clients of SRV do, and AllPriorities takes
// all. A worker of an SRV record has labels dns-target, dns-priority and
// dns-weight, for policies to select by. Weights are not used otherwise: the router knows
// better how much a worker can take. The targets of SRV records are looked up
// for addresses, each of which is a worker; what an answer adds of itself about
// them is not believed.
//
// # When
//
// The name is asked again when the first of the records of the last answer, CNAMEs
// on the way included, has run out, but not sooner than MinInterval and not later
// than MaxInterval. An empty answer is kept likewise, by its SOA record.
//
// # Failure
//
// An answer that says that the name has no such records, or does not exist, removes
// all workers, those still listed by Hold excepted. Anything else is no answer:
// SERVFAIL, REFUSED, silence, nonsense, an answer to another question, a referral,
// a target without an answer. Then the list in force stays and Fleet.Err says
// what is wrong, without a bound unless MaxStale gives one: a list that is old is
// better than none, as the Fleet probes its workers. A name that does not exist at the
// very first lookup is an error too, because it is probably misspelt.
//
// # Servers
//
// Without Servers, those of /etc/resolv.conf are asked, with its search list and
// ndots; it is read again before each lookup. Of the names that the search list
// makes the first that exists counts, though it has no records, and none after one
// that had records once: they may be wildcards with others' addresses. Other options there are not
// followed, and neither are /etc/hosts and the system's resolver, which hide how
// long an answer holds. Windows has no such file: give Servers.
//
// Queries go over UDP from a new random port each, and over TCP when an answer
// was cut. They are neither encrypted nor validated (DNSSEC): use a server that
// the network protects, as for any other program.
package dns
