package main

import (
	"math/rand/v2"
	"strings"
	"time"
)

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// session is a conversation: the user's messages in turn, each sent after the
// answer to the one before. Start is its place in modelled time.
type session struct {
	Start time.Duration
	Turns []string
	// Output is the number of tokens to generate in a turn.
	Output int
}

// workload is what both routers are given, in the same order from the same seed.
type workload struct {
	Name, Description string
	Sessions          []session
	// WarmUp is how many of the first sessions are run but not counted.
	WarmUp int
	// Concurrent bounds how many sessions run at once; 0 means that each starts at
	// its Start.
	Concurrent int
}

func (w workload) requests() int {
	n := 0
	for _, s := range w.Sessions {
		n += len(s.Turns)
	}
	return n
}

// words returns n words, each one token of the fake engines' tokenizer.
func words(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var b strings.Builder
	for range n {
		b.WriteByte(' ')
		for range 3 {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
	}
	return b.String()
}

// sharedPrefix is retrieval or agents: few long prefixes, a short question
// behind each, arriving at random.
func sharedPrefix(seed uint64) workload {
	const (
		prefixes, prefixTokens  = 24, 16_000
		questions, questionSize = 100, 256
		warmUp                  = 36
		perSecond               = 0.25
	)
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible on purpose
	documents := make([]string, prefixes)
	for i := range documents {
		documents[i] = words(r, prefixTokens)
	}
	w := workload{
		Name:        "shared-prefix",
		Description: "24 prefixes of 16,000 tokens, 256 of its own behind each, Poisson arrivals, the first 36 not counted",
		WarmUp:      warmUp,
	}
	at := 0.0
	for range questions {
		at += r.ExpFloat64() / perSecond
		w.Sessions = append(w.Sessions, session{
			Start:  time.Duration(at * float64(time.Second)),
			Turns:  []string{documents[r.IntN(prefixes)] + words(r, questionSize)},
			Output: 64,
		})
	}
	return w
}

// multiTurn is chat: each turn sends the conversation so far and a little more.
func multiTurn(seed uint64) workload {
	const (
		sessions, turns         = 9, 6
		firstTokens, nextTokens = 8_000, 400
	)
	r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // reproducible on purpose
	w := workload{
		Name:        "multi-turn",
		Description: "9 conversations of 6 turns: 8,000 tokens first, 400 more a turn, 4 at a time",
		Concurrent:  4,
	}
	for range sessions {
		s := session{Output: 48, Turns: []string{words(r, firstTokens)}}
		for range turns - 1 {
			s.Turns = append(s.Turns, words(r, nextTokens))
		}
		w.Sessions = append(w.Sessions, s)
	}
	return w
}
