// Package replicatest is for whoever carries messages between routers, or tests what
// they do with them: [Run] is the conformance suite of a [replica.Exchange], [Bus] is an
// Exchange in memory that loses, doubles, delays and reorders as it is told.
//
// It needs nothing but the standard testing package.
package replicatest
