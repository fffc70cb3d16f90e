package dialect

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The API wants the calls of a turn in one message, and all their results right after it.
func TestChatJoinsTurnsWithTools(t *testing.T) {
	turn := func(role, blocks string) string { return `{"role":"` + role + `","content":[` + blocks + `]}` }
	const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
	turns := turn("assistant", `{"type":"text","text":"I look."}`) + "," +
		turn("assistant", `{"type":"tool_use","id":"a","name":"f","input":{}}`) + "," +
		turn("assistant", `{"type":"tool_use","id":"b","name":"f","input":{}}`) + "," +
		turn("user", `{"type":"text","text":"Well?"}`) + "," +
		turn("user", `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"},`+image+`]}`) + "," +
		turn("user", `{"type":"tool_result","tool_use_id":"b","content":"2"}`)
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"one"},{"role":"user","content":"two"},` + turns + `]}`
	x, err := NewExchange(Messages(), Chat(), []byte(body), Options{})
	require.NoError(t, err)
	var sent struct {
		Messages []struct {
			Role      string
			Content   json.RawMessage
			ID        string `json:"tool_call_id"`
			ToolCalls []struct {
				ID string
			} `json:"tool_calls"`
		}
	}
	require.NoError(t, json.Unmarshal(x.Body(), &sent))
	var got []string
	for _, m := range sent.Messages {
		s := m.Role + m.ID
		for _, c := range m.ToolCalls {
			s += " " + c.ID
		}
		got = append(got, s+" "+string(m.Content))
	}
	assert.Equal(t, []string{
		`user "one"`, `user "two"`, // no need to make lists of texts of these
		`assistant a b "I look."`,
		`toola "1"`, `toolb "2"`,
		`user [{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"Well?"}]`,
	}, got)
}
