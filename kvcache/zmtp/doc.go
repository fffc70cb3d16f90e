// Package zmtp receives an engine's KV events over ZeroMQ's wire protocol in
// pure Go, with nothing installed and no cgo.
//
// [Transport] implements [follow.Transport]: a SUB socket for the live messages
// and a DEALER socket per replay, over tcp:// and ipc://, with the NULL security
// mechanism, which is what vLLM and SGLang speak. It follows ZMTP 3.1 and talks
// to 3.0 peers, that is, to every libzmq from 4.0 on.
//
// [Publisher] is the other end, a PUB socket with a ROUTER for replays, as the
// engines have it: for tests, simulations and demonstrations.
package zmtp
