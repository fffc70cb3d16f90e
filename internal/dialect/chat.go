package dialect

// chatName is the API's name in policies and in messages.
const chatName = "chat"

// Chat is the codec of OpenAI's chat completions, as OpenAI and those who followed speak it.
// It is one for clients and for services.
//
// Two things are not OpenAI's. Reasoning is in reasoning_content, as engines have it. What a
// service signed or hid of it is in thinking_blocks, as gateways to Anthropic's models have
// it: clients that hand an answer back whole keep it, and others lose nothing.
func Chat() interface {
	Client
	Service
} {
	return chatCodec{}
}

type chatCodec struct{}

func (chatCodec) Name() string { return chatName }
