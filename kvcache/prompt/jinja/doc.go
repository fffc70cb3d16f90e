// Package jinja renders chat templates exactly as the engines' Python does.
//
// A router that predicts which prefix an engine has cached must know the very
// bytes that the engine will tokenize. Those bytes come out of a Jinja template
// that ships with the model, rendered by Python's jinja2 in the environment that
// the transformers library sets up: an immutable sandbox, trim_blocks and
// lstrip_blocks, loop controls, generation blocks, and the functions tojson,
// raise_exception and strftime_now. This package is that environment in pure Go:
// for a template and its variables it yields the same bytes, or an error where
// Python raises one.
//
// [Compile] parses a template once; a [Template] is immutable and renders
// concurrently. Templates are code from elsewhere, so every render is bounded in
// steps, bytes and nesting (see [Options]) and by its context. What the package
// does not know is refused with [ErrUnsupported], never guessed.
//
// # How it is built
//
//	lex, ast, parse_*       source to tree, by jinja2's grammar
//	symbols, scope          which variable a name means: jinja2's rules, quirks included
//	compile_*, fold         tree to executable nodes, names resolved to slots
//	exec_*, loop, macro     statements, loops and macros at run time
//	value, dict, views      Python's types
//	ops_*, compare, text,   Python's operators, str() and repr()
//	  format_*, strftime
//	attr, methods_*         attributes and methods the sandbox allows
//	filters_*, tests        jinja2's filters and tests
//	json_*                  json.loads and json.dumps
//	contentformat           what vLLM reads off a template's tree
//
// # What is refused
//
// Templates or renders that need the following give ErrUnsupported, so that the
// engine can be asked instead: include, import, extends, autoescape, self and
// super; the filters pprint, random, urlize and wordwrap; values that Python
// prints with a memory address (generators, bound methods); complex numbers and
// powers with a fraction; sets; bytes; strftime_now with widths or with E and O;
// formatting of Markup.
//
// # What differs
//
// Tables of character properties are Go's (Unicode 15), an engine's are those of
// its Python. Python's recursion limit depends on what called it; ours are fixed,
// near it. "is sameas" takes equal strings and ints for the same object.
package jinja
