package jinja

import "slices"

// parser turns tokens into a tree by recursive descent, as jinja2's does.
type parser struct {
	toks     []token
	i        int
	depth    int
	maxDepth int
}

func parse(source string, maxDepth int) (*templateNode, error) {
	toks, err := tokenize(source)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, t := range toks {
		if t.kind == tName {
			names[t.text] = true
		}
	}
	if len(names) > maxNames { // scopes are copied at each if
		return nil, limit("more than %d names", maxNames)
	}
	p := &parser{toks: toks, maxDepth: maxDepth}
	body, err := p.body()
	if err != nil {
		return nil, err
	}
	return &templateNode{body}, nil
}

func (p *parser) tok() token { return p.toks[p.i] }

func (p *parser) peek() token { return p.toks[min(p.i+1, len(p.toks)-1)] }

// next skips the current token and returns it. The last one stays.
func (p *parser) next() token {
	t := p.toks[p.i]
	if p.i < len(p.toks)-1 {
		p.i++
	}
	return t
}

func (p *parser) isOp(op string) bool {
	t := &p.toks[p.i]
	return t.kind == tOp && t.text == op
}

func (p *parser) isName(name string) bool {
	t := &p.toks[p.i]
	return t.kind == tName && t.text == name
}

func (p *parser) skipOp(op string) bool {
	if !p.isOp(op) {
		return false
	}
	p.next()
	return true
}

func (p *parser) skipName(name string) bool {
	if !p.isName(name) {
		return false
	}
	p.next()
	return true
}

func (p *parser) unexpected(want string) error {
	t := p.tok()
	return syntax(t.line, "expected %s, got %q", want, t.describe())
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.unexpected(op)
	}
	return nil
}

func (p *parser) expectName() (token, error) {
	if p.tok().kind != tName {
		return token{}, p.unexpected("name")
	}
	return p.next(), nil
}

func (p *parser) expectKind(k tokenKind) error {
	if p.tok().kind != k {
		return p.unexpected(token{kind: k}.describe())
	}
	p.next()
	return nil
}

// enter counts a level of nesting.
func (p *parser) enter() error {
	if p.depth >= p.maxDepth {
		return atLine(limit("nested deeper than %d", p.maxDepth), p.tok().line)
	}
	p.depth++
	return nil
}

func (p *parser) leave() { p.depth-- }

// body parses statements and data up to a tag whose name is among ends, which
// becomes the current token, or to the end of the template if there are none.
func (p *parser) body(ends ...string) ([]node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var body []node
	var data []node
	line := 0
	flush := func() {
		if len(data) > 0 {
			body = append(body, &outputNode{at(line), data})
			data = nil
		}
	}
	for {
		t := p.tok()
		if len(data) == 0 {
			line = t.line
		}
		switch t.kind {
		case tEOF:
			if len(ends) > 0 {
				return nil, syntax(t.line, "unexpected end of template, looking for %q", ends[0])
			}
			flush()
			return body, nil
		case tData:
			p.next()
			data = append(data, &dataNode{at(t.line), t.text})
		case tVarBegin:
			e, err := p.variable()
			if err != nil {
				return nil, err
			}
			data = append(data, e)
		case tBlockBegin:
			flush()
			p.next()
			if slices.ContainsFunc(ends, p.isName) {
				return body, nil
			}
			n, err := p.statement()
			if err != nil {
				return nil, err
			}
			body = append(body, n)
			if err := p.expectKind(tBlockEnd); err != nil {
				return nil, err
			}
		case tVarEnd, tBlockEnd, tName, tString, tInt, tFloat, tOp:
			return nil, p.unexpected("data")
		default:
			return nil, p.unexpected("data")
		}
	}
}

// variable parses a {{ }}.
func (p *parser) variable() (exprNode, error) {
	p.next()
	e, err := p.tuple(tupleOpts{cond: true})
	if err != nil {
		return nil, err
	}
	return e, p.expectKind(tVarEnd)
}

// block parses the body of a statement: the rest of the tag, an optional colon
// aside, is its end.
func (p *parser) block(ends ...string) ([]node, error) {
	p.skipOp(":")
	if err := p.expectKind(tBlockEnd); err != nil {
		return nil, err
	}
	return p.body(ends...)
}

// blockUntil is block for a body with one end, which it skips.
func (p *parser) blockUntil(end string) ([]node, error) {
	body, err := p.block(end)
	if err != nil {
		return nil, err
	}
	p.next()
	return body, nil
}
