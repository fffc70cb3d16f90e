package trtllm

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// A connection is up once a poll was answered, and says before what is wrong.
func TestLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.set(func() fault { return fault{refuse: true} })
		c, err := (&Transport{Client: e.client()}).Dial(t.Context(), follow.Endpoint{Events: address})
		require.NoError(t, err)
		defer func() { assert.NoError(t, c.Close()) }()
		l := c.Link()
		if l.Err == nil { // the first poll is not over yet
			<-l.Changed
			l = c.Link()
		}
		assert.False(t, l.Up)
		require.EqualError(t, l.Err, "refused")
		select {
		case <-l.Changed:
			t.Error("the same fault again is no change")
		case <-time.After(time.Second):
		}
		e.set(func() fault { return fault{status: http.StatusNotFound} })
		<-l.Changed
		l = c.Link()
		assert.False(t, l.Up)
		require.ErrorContains(t, l.Err, "status 404")
		e.set(nil)
		<-l.Changed
		assert.Equal(t, follow.Link{Up: true}, c.Link())
	})
}
