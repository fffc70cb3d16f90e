// Package file reads prices, from YAML or JSON that an operator writes ([Parse]) and from
// the public list that LiteLLM keeps ([LiteLLM]). Decimal numbers are taken digit by
// digit: no price goes through a float.
//
//	currency: USD
//	aliases: {openai-eu: openai}   # asks for what openai does, if not listed itself
//	models:
//	  - provider: openai           # none: the fleet's own workers; "*": any provider
//	    model: gpt-4o*             # an asterisk at the end stands for whatever follows
//	    input: 2.50                # of the currency per million tokens, up to 6 decimals
//	    output: 10
//	    cacheRead: 1.25            # not given: as input
//	    cacheWrite: 2.50           # not given: as input
//	    reasoning: 10              # not given: as output
//	    request: 0.0001            # for each request besides
//	    above:                     # prompts longer than so many tokens; else as without
//	      - {tokens: 200000, input: 5, output: 15}
//	  - model: qwen3*
//	    gpu: {hour: 2.50, count: 8, input: 20000, output: 2000}
//
// gpu is what price.GPU says: the price of an hour of one, how many a worker has, and
// how many tokens of prompts and of answers it does in a second. It replaces input,
// output and cacheRead, of which cacheRead may be given as well.
//
// input and output are required; what costs nothing says 0. Unknown keys, keys given
// twice and values of the wrong kind are errors that name line and column. A list
// without the key models around it is taken too.
package file
