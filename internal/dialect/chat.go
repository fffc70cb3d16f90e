package dialect

import "net/http"

// chatName is the API's name in policies and in messages.
const chatName = "chat"

// Chat is the codec of OpenAI's chat completions, as OpenAI and those who followed speak it.
// It is one for clients and for services.
func Chat() interface {
	Client
	Service
} {
	return chatCodec{}
}

type chatCodec struct{}

func (chatCodec) Name() string { return chatName }

func (chatCodec) DecodeAnswer([]byte) (*Answer, error) { return nil, errChatSoon }

func (chatCodec) EncodeAnswer(dst []byte, _ *Answer, _ *AnswerOptions) []byte { return dst }

func (chatCodec) NewStreamEncoder(*AnswerOptions) StreamEncoder { return nil }

func (chatCodec) NewStreamDecoder() StreamDecoder { return nil }

func (chatCodec) EncodeFailure(f *Failure) (status int, body []byte) { return f.Status, nil }

func (chatCodec) DecodeFailure(status int, _ http.Header, _ []byte) *Failure {
	return &Failure{Status: status}
}

var errChatSoon = &UnsupportedError{Field: "model", Reason: "this codec is being written"}
