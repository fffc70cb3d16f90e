package bedrock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/providers"
)

// service is what requests are signed for.
const service = "bedrock"

// Authorize puts an API key on the request, or signs it.
func (k *Kind) Authorize(ctx context.Context, r *http.Request, body []byte, c providers.Credential) error {
	r.Header.Set("Accept", "application/json")
	if strings.HasSuffix(r.URL.Path, streamOp) {
		r.Header.Set("Accept", "application/vnd.amazon.eventstream")
	}
	if k.o.Credentials == nil {
		key := c.Reveal()
		if key == "" {
			return errors.New("bedrock: there is no API key")
		}
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}
	if body == nil {
		return errors.New("bedrock: a request is signed over its whole body, which must be held in memory")
	}
	keys, err := k.o.Credentials.Retrieve(ctx) // ctx ends in time, and a panic is caught by who calls
	if err != nil {
		return fmt.Errorf("bedrock: get credentials: %w", err)
	}
	if !keys.HasKeys() {
		return errors.New("bedrock: the credentials have no keys")
	}
	sum := sha256.Sum256(body)
	err = k.signer.SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), service, k.region(r.URL.Hostname()), k.o.Now())
	if err != nil {
		return fmt.Errorf("bedrock: sign: %w", err)
	}
	return nil
}
