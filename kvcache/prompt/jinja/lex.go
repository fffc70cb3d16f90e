package jinja

import (
	"fmt"
	"strings"
)

// tokenKind is the type of a token.
type tokenKind uint8

const (
	tEOF tokenKind = iota
	tData
	tVarBegin
	tVarEnd
	tBlockBegin
	tBlockEnd
	tName
	tString
	tInt
	tFloat
	tOp
)

type token struct {
	kind tokenKind
	line int
	text string // data, name, string's value, operator
	num  Value  // number's value
}

// describe names the token in an error.
func (t token) describe() string {
	switch t.kind {
	case tEOF:
		return "end of template"
	case tData:
		return "template data / text"
	case tVarBegin:
		return "begin of print statement"
	case tVarEnd:
		return "end of print statement"
	case tBlockBegin:
		return "begin of statement block"
	case tBlockEnd:
		return "end of statement block"
	case tString:
		return "string"
	case tInt:
		return "integer"
	case tFloat:
		return "float"
	case tName, tOp:
		return t.text
	default:
		return t.text
	}
}

func syntax(line int, format string, args ...any) error {
	return &Error{Kind: Syntax, Line: line, Message: fmt.Sprintf(format, args...)}
}

// lexer splits a source into tokens. The rules are those of jinja2's lexer with
// trim_blocks and lstrip_blocks, without line statements: a tag may carry a sign
// at either end that says what becomes of the whitespace beside it.
type lexer struct {
	src          string
	pos, line    int
	lineStarting bool // the last match ended a line, so that lstrip may apply
	tokens       []token
}

// tokenize returns the tokens of source, the last of kind tEOF.
func tokenize(source string) ([]token, error) {
	lx := &lexer{src: normalizeSource(source), line: 1, lineStarting: true}
	for lx.pos < len(lx.src) {
		if err := lx.root(); err != nil {
			return nil, err
		}
	}
	lx.emit(token{kind: tEOF})
	return lx.tokens, nil
}

// normalizeSource makes every line end a \n and drops a last one.
func normalizeSource(source string) string {
	return strings.TrimSuffix(normalizeNewlines(source), "\n")
}

func normalizeNewlines(s string) string {
	if !strings.Contains(s, "\r") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func (lx *lexer) emit(t token) {
	t.line = lx.line
	lx.tokens = append(lx.tokens, t)
}

// advance moves to end, counting lines.
func (lx *lexer) advance(end int) {
	lx.line += strings.Count(lx.src[lx.pos:end], "\n")
	lx.lineStarting = end > lx.pos && lx.src[end-1] == '\n'
	lx.pos = end
}

// root reads data up to the next tag, and the tag.
func (lx *lexer) root() error {
	rest := lx.src[lx.pos:]
	at, kind := findTag(rest)
	if at < 0 {
		lx.emit(token{kind: tData, text: rest})
		lx.advance(len(lx.src))
		return nil
	}
	text := rest[:at]
	if kind == '%' {
		if sign, length, ok := matchRaw(rest[at:]); ok {
			lx.data(text, sign, false)
			lx.advance(lx.pos + at + length)
			return lx.raw()
		}
	}
	length := 2
	var sign byte
	if at+2 < len(rest) && (rest[at+2] == '-' || rest[at+2] == '+') {
		sign = rest[at+2]
		length++
	}
	lx.data(text, sign, kind == '{')
	lx.advance(lx.pos + at)
	tag := lx.line
	switch kind {
	case '#':
		lx.advance(lx.pos + length)
		return lx.comment()
	case '{':
		lx.emit(token{kind: tVarBegin})
	default:
		lx.emit(token{kind: tBlockBegin})
	}
	lx.advance(lx.pos + length)
	return lx.tag(kind == '{', tag)
}

// findTag returns the place of the first tag and the character that tells its kind.
func findTag(s string) (int, byte) {
	for i := 0; ; i++ {
		n := strings.IndexByte(s[i:], '{')
		if n < 0 {
			return -1, 0
		}
		i += n
		if i+1 >= len(s) {
			return -1, 0
		}
		switch c := s[i+1]; c {
		case '{', '%', '#':
			return i, c
		}
	}
}

// data emits the text before a tag, less the whitespace that the tag's sign and
// lstrip_blocks take away.
func (lx *lexer) data(text string, sign byte, variable bool) {
	switch {
	case sign == '-':
		text = trimRightSpace(text)
	case sign != '+' && !variable:
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || lx.lineStarting) && start < len(text) && trimLeftSpace(text[start:]) == "" {
			text = text[:start]
		}
	}
	if text != "" {
		lx.emit(token{kind: tData, text: text})
	}
}

// matchRaw matches the opening tag of a raw block.
func matchRaw(s string) (sign byte, length int, ok bool) {
	i := 2
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		sign = s[i]
		i++
	}
	i += spacePrefix(s[i:])
	if !strings.HasPrefix(s[i:], "raw") {
		return 0, 0, false
	}
	i += len("raw")
	i += spacePrefix(s[i:])
	switch {
	case strings.HasPrefix(s[i:], "-%}"):
		i += len("-%}")
		return sign, i + spacePrefix(s[i:]), true
	case strings.HasPrefix(s[i:], "%}"):
		return sign, i + len("%}"), true
	default:
		return 0, 0, false
	}
}

// raw reads the body of a raw block and its closing tag.
func (lx *lexer) raw() error {
	rest := lx.src[lx.pos:]
	for from := 0; ; {
		n := strings.Index(rest[from:], "{%")
		if n < 0 {
			return syntax(lx.line, "missing end of raw directive")
		}
		at := from + n
		from = at + 2
		i := at + 2
		var sign byte
		if i < len(rest) && (rest[i] == '-' || rest[i] == '+') {
			sign = rest[i]
			i++
		}
		i += spacePrefix(rest[i:])
		if !strings.HasPrefix(rest[i:], "endraw") {
			continue
		}
		i += len("endraw")
		i += spacePrefix(rest[i:])
		n = matchBlockEnd(rest[i:])
		if n == 0 {
			continue
		}
		lx.data(rest[:at], sign, false)
		lx.advance(lx.pos + i + n)
		return nil
	}
}

// matchBlockEnd returns the length of a closing %} with its sign and the
// whitespace it takes, 0 if there is none.
func matchBlockEnd(s string) int {
	switch {
	case strings.HasPrefix(s, "%}\n"):
		return 3
	case strings.HasPrefix(s, "%}"):
		return 2
	case strings.HasPrefix(s, "+%}"):
		return 3
	case strings.HasPrefix(s, "-%}"):
		return 3 + spacePrefix(s[3:])
	default:
		return 0
	}
}

func (lx *lexer) comment() error {
	rest := lx.src[lx.pos:]
	n := strings.Index(rest, "#}")
	if n < 0 {
		return syntax(lx.line, "missing end of comment tag")
	}
	end := n + 2
	switch {
	case n > 0 && rest[n-1] == '-':
		end += spacePrefix(rest[end:])
	case n > 0 && rest[n-1] == '+':
	case strings.HasPrefix(rest[end:], "\n"):
		end++
	}
	lx.advance(lx.pos + end)
	return nil
}

// tag reads the tokens of a tag up to its end.
func (lx *lexer) tag(variable bool, line int) error {
	var open []byte // brackets that wait for their partner: an end inside is no end
	for lx.pos < len(lx.src) {
		rest := lx.src[lx.pos:]
		if len(open) == 0 {
			if n := matchEnd(rest, variable); n > 0 {
				kind := tBlockEnd
				if variable {
					kind = tVarEnd
				}
				lx.emit(token{kind: kind})
				lx.advance(lx.pos + n)
				return nil
			}
		}
		if n := spacePrefix(rest); n > 0 {
			lx.advance(lx.pos + n)
			continue
		}
		n, err := lx.scan(rest, &open)
		if err != nil {
			return err
		}
		lx.advance(lx.pos + n)
	}
	_ = line // the parser reports the missing end where it notices it
	return nil
}

func matchEnd(s string, variable bool) int {
	if !variable {
		return matchBlockEnd(s)
	}
	switch {
	case strings.HasPrefix(s, "}}"):
		return 2
	case strings.HasPrefix(s, "-}}"):
		return 3 + spacePrefix(s[3:])
	default:
		return 0
	}
}

// scan reads one token of an expression and returns its length.
func (lx *lexer) scan(s string, open *[]byte) (int, error) {
	if n, t, ok, err := lx.number(s); err != nil {
		return 0, err
	} else if ok {
		lx.emit(t)
		return n, nil
	}
	if n := namePrefix(s); n > 0 {
		if !isIdentifier(s[:n]) {
			return 0, syntax(lx.line, "invalid character in identifier")
		}
		lx.emit(token{kind: tName, text: s[:n]})
		return n, nil
	}
	if s[0] == '\'' || s[0] == '"' {
		if n := stringLength(s); n > 0 {
			text, err := unescapeString(normalizeNewlines(s[1 : n-1]))
			if err != nil {
				return 0, syntax(lx.line, "%v", err)
			}
			lx.emit(token{kind: tString, text: text})
			return n, nil
		}
	}
	op := matchOperator(s)
	if op == "" {
		return 0, syntax(lx.line, "unexpected character")
	}
	if err := lx.balance(op, open); err != nil {
		return 0, err
	}
	lx.emit(token{kind: tOp, text: op})
	return len(op), nil
}

func (lx *lexer) balance(op string, open *[]byte) error {
	switch op {
	case "{":
		*open = append(*open, '}')
	case "(":
		*open = append(*open, ')')
	case "[":
		*open = append(*open, ']')
	case "}", ")", "]":
		if len(*open) == 0 {
			return syntax(lx.line, "unexpected %q", op)
		}
		last := (*open)[len(*open)-1]
		*open = (*open)[:len(*open)-1]
		if last != op[0] {
			return syntax(lx.line, "unexpected %q, expected %q", op, string(last))
		}
	}
	return nil
}

func matchOperator(s string) string {
	if len(s) >= 2 {
		switch s[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return s[:2]
		}
	}
	if strings.IndexByte("+-/*%~[](){}><=.:|,;", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}
