package dialect

// responsesName is the API's name, as policies have it.
const responsesName = "responses"

// responses is the codec of OpenAI's responses API. It is for clients only: a service that
// speaks the API gets such requests as they are.
type responses struct{}

// Responses is the codec of OpenAI's responses API (POST /v1/responses). What the API keeps
// on the server is refused: earlier responses, conversations, background work and the tools
// that OpenAI runs itself.
//
// Reasoning that a service signs goes to the client as encrypted_content with a mark before
// it, and is handed back to the service only with that mark: another service's reasoning
// would be refused there.
func Responses() Client { return responses{} }

func (responses) Name() string { return responsesName }
