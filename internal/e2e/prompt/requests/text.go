package requests

import "strings"

// words are pieces of text in which tokenizers and templates go wrong.
var words = [...]string{
	"the", "router", " keeps", "prefix", "Größe", "naïve", "e\u0301", "路由器", "缓存命中率", "こんにちは", "안녕하세요", "مرحبا", "שלום",
	"Привет", "नमस्ते", "สวัสดี", "🙂", "👩‍👩‍👧", "🇩🇪", "1234567", "3.14", "0x1F", "don't", "I'LL", "ſ's", "ﬁ", "Ａ", "x²", "½",
	"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<|eot_id|>",
	"<|begin_of_text|>", "<｜User｜>", "<｜begin▁of▁sentence｜>", "[INST]", "[/INST]", "<think>", "</think>", "<tool_call>", "<|end|>",
	"<|start|>", "<|sep|>", "{{ messages }}", "{% raw %}", "{# no #}", "&amp;", "<b>", "\"quoted\"", "back\\slash", "tab\there",
	"nul\x00", "del\x7f", "\u00a0", "\u200b", "\u2028", "\ufeff", "\u00ad", "▁", "Ġ", "Ċ", "if (a && b) { return f(x)[0]; }",
	"def f(x):\n    return x\n", "SELECT * FROM t WHERE a='b';", "https://example.com/?q=1&r=2#s", "user@example.com",
	"\U0001F9D1\u200d\U0001F4BB",
	"\U00010041\u0323", "\u1100\u1161\u11a8", "ก็", "\u0300", "\U000e0001", "\ue000", "\uffff",
}

var spaces = [...]string{" ", " ", " ", " ", "", "  ", "\n", "\n\n", "\t", " \n ", "\r\n", "   "}

// prose is text of some words; sometimes empty, sometimes long.
func (g *Generator) prose() string {
	const usual, long = 12, 300
	n := g.IntN(usual)
	if g.chance(4) {
		n = g.IntN(long)
	}
	var b strings.Builder
	for i := range n {
		if i > 0 || g.chance(5) {
			b.WriteString(spaces[g.IntN(len(spaces))])
		}
		b.WriteString(words[g.IntN(len(words))])
	}
	if g.chance(8) {
		b.WriteString(spaces[g.IntN(len(spaces))])
	}
	return b.String()
}

// saying is prose that is not empty.
func (g *Generator) saying() string {
	if s := g.prose(); s != "" {
		return s
	}
	return words[g.IntN(len(words))]
}

// value is any JSON value.
func (g *Generator) value(depth int) string {
	const kinds = 8
	n := g.IntN(kinds)
	if depth == 0 {
		n %= 6
	}
	switch n {
	case 0:
		return pick(g, "null", "true", "false")
	case 1:
		return pick(g, "0", "-1", "7", "9007199254740993", "123456789012345678901234567890", "-0")
	case 2:
		return pick(g, "1.0", "0.1", "1e3", "1E-7", "123456789.125", "1e16", "1e22", "-0.0", "2.50", "1e400")
	case 3, 4, 5:
		return quote(g.prose())
	case 6:
		return list(g.some(3, func() string { return g.value(depth - 1) }))
	default:
		return g.object(depth - 1)
	}
}

// object is any JSON object, its keys in no order, sometimes one of them twice.
func (g *Generator) object(depth int) string {
	var f fields
	for range g.IntN(5) {
		f.raw(pick(g, "city", "unit", "a", "z", "größe", "x y", "query", "limit"), g.value(depth))
	}
	return f.String()
}

// schema is a JSON schema as tools have them.
func (g *Generator) schema() string {
	var properties fields
	for range g.IntN(4) {
		var p fields
		p.text("type", pick(g, "string", "integer", "number", "boolean", "array"))
		if g.chance(60) {
			p.text("description", g.prose())
		}
		if g.chance(30) {
			p.raw("enum", list(g.some(3, func() string { return g.value(0) })))
		}
		properties.raw(pick(g, "city", "unit", "query", "limit", "größe")+pick(g, "", "1", "_2"), p.String())
	}
	var f fields
	if g.chance(90) {
		f.text("type", "object")
	}
	f.raw("properties", properties.String())
	if g.chance(60) {
		f.raw("required", list(g.some(2, func() string { return quote("city") })))
	}
	if g.chance(20) {
		f.raw("additionalProperties", "false")
	}
	return f.String()
}
