package classify

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// token is how the secrets of an issuer are written.
type token struct {
	prefix string
	kind   kind
	// least and most bytes follow the prefix.
	least, most int
	// dashed: they may hold dashes; else letters, digits and underscores only.
	dashed bool
	// plain: they hold neither dashes nor underscores.
	plain bool
}

// longestToken bounds tokens of no fixed length.
const longestToken = 400

// tokens has, for each letter, the tokens that begin with it. Longer prefixes come
// first.
var tokens = [...][]token{ //nolint:gochecknoglobals // an immutable table
	'A': {
		{prefix: "AKIA", kind: awsKey, least: 16, most: 16, plain: true},
		{prefix: "ASIA", kind: awsKey, least: 16, most: 16, plain: true},
		{prefix: "ABIA", kind: awsKey, least: 16, most: 16, plain: true},
		{prefix: "ACCA", kind: awsKey, least: 16, most: 16, plain: true},
		{prefix: "AIza", kind: google, least: 35, most: 35, dashed: true},
	},
	'g': {
		{prefix: "github_pat_", kind: gitHub, least: 36, most: 255},
		{prefix: "ghp_", kind: gitHub, least: 36, most: 255, plain: true},
		{prefix: "gho_", kind: gitHub, least: 36, most: 255, plain: true},
		{prefix: "ghu_", kind: gitHub, least: 36, most: 255, plain: true},
		{prefix: "ghs_", kind: gitHub, least: 36, most: 255, plain: true},
		{prefix: "ghr_", kind: gitHub, least: 36, most: 255, plain: true},
		{prefix: "glpat-", kind: gitLab, least: 20, most: longestToken, dashed: true},
	},
	'G': {
		{prefix: "GOCSPX-", kind: google, least: 28, most: 28, dashed: true},
	},
	'x': {
		{prefix: "xoxb-", kind: slack, least: 20, most: longestToken, dashed: true},
		{prefix: "xoxp-", kind: slack, least: 20, most: longestToken, dashed: true},
		{prefix: "xoxa-", kind: slack, least: 20, most: longestToken, dashed: true},
		{prefix: "xoxr-", kind: slack, least: 20, most: longestToken, dashed: true},
		{prefix: "xoxs-", kind: slack, least: 20, most: longestToken, dashed: true},
		{prefix: "xoxe-", kind: slack, least: 20, most: longestToken, dashed: true},
		{prefix: "xapp-", kind: slack, least: 20, most: longestToken, dashed: true},
	},
	's': {
		{prefix: "sk-ant-", kind: anthropic, least: 32, most: longestToken, dashed: true},
		{prefix: "sk-proj-", kind: openAI, least: 32, most: longestToken, dashed: true},
		{prefix: "sk-svcacct-", kind: openAI, least: 32, most: longestToken, dashed: true},
		{prefix: "sk-admin-", kind: openAI, least: 32, most: longestToken, dashed: true},
		{prefix: "sk-or-v1-", kind: openAI, least: 32, most: longestToken, dashed: true},
		{prefix: "sk-", kind: openAI, least: 32, most: longestToken, plain: true},
		{prefix: "sk_live_", kind: stripe, least: 16, most: 255, plain: true},
		{prefix: "sk_test_", kind: stripe, least: 16, most: 255, plain: true},
	},
	'r': {
		{prefix: "rk_live_", kind: stripe, least: 16, most: 255, plain: true},
		{prefix: "rk_test_", kind: stripe, least: 16, most: 255, plain: true},
	},
	'w': {
		{prefix: "whsec_", kind: stripe, least: 32, most: 255, plain: true},
	},
	'h': {
		{prefix: "hf_", kind: huggingFace, least: 34, most: 40, plain: true},
	},
	'n': {
		{prefix: "npm_", kind: packages, least: 36, most: 36, plain: true},
	},
	'p': {
		{prefix: "pypi-", kind: packages, least: 50, most: longestToken, dashed: true},
	},
}

// secret looks for one at the word text[i:j], and returns its end, 0 for none.
func (s *scan) secret(i, j int) int {
	word := s.text[i:j]
	switch {
	case len(word) >= 3 && word[0] == 'e' && word[1] == 'y' && word[2] == 'J':
		return s.jwt(i)
	case word[0] == 'S' && len(word) == 2 && word[1] == 'G' && s.at(j) == '.':
		return s.sendGrid(i, j+1)
	case word[0]|0x20 == 'a' && len(word) >= len("awsSecretKey") && len(word) <= len("aws_secret_access_key"),
		word[0]|0x20 == 's' && len(word) >= len("secretAccessKey") && len(word) <= len("secret_access_key"):
		if end := s.awsSecret(i, j); end > 0 {
			return end
		}
	default:
	}
	if int(word[0]) >= len(tokens) {
		return 0
	}
	candidates := tokens[word[0]]
	for k := range candidates {
		t := &candidates[k]
		from := i + len(t.prefix)
		if from >= len(s.text) || string(s.text[i:from]) != t.prefix {
			continue
		}
		if end := s.ends(from, t); end-from >= t.least && end-from <= t.most && varied(s.text[from:end]) {
			return s.hit(t.kind, i, end)
		}
	}
	return 0
}

// ends returns where a token ends whose prefix ends at i; i if it is glued to
// what can't belong to it.
func (s *scan) ends(i int, t *token) int {
	if t.dashed {
		return s.dashedEnd(i)
	}
	end := i
	for s.is(end, isWord) && end-i <= t.most {
		if t.plain && s.text[end] == '_' {
			return i
		}
		end++
	}
	s.steps += end - i
	if t.plain && s.at(end) == '-' && s.is(end+1, isWord) {
		return i
	}
	return end
}

// dashedEnd returns where a run of letters, digits, underscores and dashes ends. A
// run is walked once, however many tokens seem to begin in it.
func (s *scan) dashedEnd(i int) int {
	if i < s.dashed {
		return s.dashed
	}
	end := i
	for s.is(end, isWord) || s.at(end) == '-' {
		end++
	}
	s.steps += end - i
	s.dashed = max(end, s.dashed)
	return end
}

// varied reports whether a text has as many different characters as anything
// random has: placeholders are made of few.
func varied(text []byte) bool {
	const enough = 7
	var low, high uint64
	n := 0
	for _, c := range text[:min(len(text), 64)] {
		bit, half := uint64(1)<<(c&63), &low
		if c >= 64 {
			half = &high
		}
		if *half&bit == 0 {
			*half |= bit
			if n++; n >= enough {
				return true
			}
		}
	}
	return false
}

// jwt finds a JSON web token at i: three or five parts, of which the first is an
// object that names an algorithm.
func (s *scan) jwt(i int) int {
	const longestHead = 2048
	if s.at(i-1) == '-' { // within a run that was looked at
		return 0
	}
	head := s.dashedEnd(i)
	if s.at(head) != '.' || head-i > longestHead || !names(s.text[i:head], `"alg"`) {
		return 0
	}
	end, parts := head, 1
	for parts < 5 && s.at(end) == '.' {
		next := s.dashedEnd(end + 1)
		if next == end+1 && parts == 1 {
			return 0
		}
		end, parts = next, parts+1
	}
	if parts < 3 {
		s.dashed = head
		return 0
	}
	return s.hit(jwt, i, end)
}

// names reports whether a text in base64url holds another.
func names(encoded []byte, what string) bool {
	plain := make([]byte, base64.RawURLEncoding.DecodedLen(len(encoded)))
	n, err := base64.RawURLEncoding.Decode(plain, encoded)
	return err == nil && bytes.Contains(plain[:n], []byte(what))
}

// sendGrid finds SG.<id>.<secret>, whose id begins at j.
func (s *scan) sendGrid(i, j int) int {
	const id, secret = 22, 43
	dot := s.dashedEnd(j)
	if dot-j != id || s.at(dot) != '.' {
		return 0
	}
	if end := s.dashedEnd(dot + 1); end-dot-1 == secret {
		return s.hit(sendGrid, i, end)
	}
	return 0
}

// awsSecret finds a secret access key after its name, text[i:j].
func (s *scan) awsSecret(i, j int) int {
	const size, mostBetween = 40, 6
	var name []byte
	for _, c := range s.text[i:j] {
		if c != '_' {
			name = append(name, c|0x20)
		}
	}
	switch string(name) {
	case "awssecretaccesskey", "secretaccesskey", "awssecretkey":
	default:
		return 0
	}
	from := j
	for from-j < mostBetween && strings.IndexByte(` "':=>`, s.at(from)) >= 0 {
		from++
	}
	end := from
	for end-from <= size && s.is(end, isDigit|isLetter|isJoint) && s.at(end) != '-' {
		end++
	}
	s.steps += end - i
	if end-from != size || !varied(s.text[from:end]) {
		return 0
	}
	return s.hit(awsKey, from, end)
}

// pem finds a private key whose first line begins with the dashes text[i:j]. The
// line is enough: what follows may be cut or indented.
func (s *scan) pem(i, j int) int {
	const dashes, longest = 5, 48
	begin := []byte("BEGIN ")
	if j-i < dashes || !bytes.HasPrefix(s.text[j:], begin) {
		return 0
	}
	line := s.text[j+len(begin) : min(len(s.text), j+len(begin)+longest)]
	s.steps += longest
	end := bytes.Index(line, []byte("-----"))
	if end < 0 {
		return 0
	}
	if label := line[:end]; bytes.HasSuffix(label, []byte("PRIVATE KEY")) || bytes.HasSuffix(label, []byte("PRIVATE KEY BLOCK")) {
		return s.hit(privateKey, i, j+len(begin)+end+dashes)
	}
	return 0
}
