package dialect

import "net/http"

func (messages) EncodeRequest(*Request, *RequestOptions, func(Warning)) ([]byte, error) {
	return nil, errMessagesSoon
}

func (messages) DecodeAnswer([]byte) (*Answer, error) { return nil, errMessagesSoon }

func (messages) EncodeAnswer(dst []byte, _ *Answer, _ *AnswerOptions) []byte { return dst }

func (messages) NewStreamEncoder(*AnswerOptions) StreamEncoder { return nil }

func (messages) NewStreamDecoder() StreamDecoder { return nil }

func (messages) EncodeFailure(f *Failure) (status int, body []byte) { return f.Status, nil }

func (messages) DecodeFailure(status int, _ http.Header, _ []byte) *Failure {
	return &Failure{Status: status}
}

var errMessagesSoon = &UnsupportedError{Field: "model", Reason: "this codec is being written"}
