package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newCertificate writes a certificate for this machine that vouches for itself.
func newCertificate(t *testing.T, dir string, serial int64) tlsConfig {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	c := tlsConfig{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), MinVersion: "1.2"}
	require.NoError(t, os.WriteFile(c.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	require.NoError(t, os.WriteFile(c.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return c
}

// A certificate that is renewed is served from the next connection on, and one that can't
// be read leaves the old one in force. No version of TLS below the least is spoken.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	c := newCertificate(t, dir, 1)
	c.MinVersion = "1.3"
	config, err := c.config()
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	serial := func() int64 {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // which one is what is asked
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	require.EqualValues(t, 1, serial())
	newCertificate(t, dir, 2)
	later := time.Now().Add(time.Minute) // file systems stamp coarsely
	require.NoError(t, os.Chtimes(c.Cert, later, later))
	require.EqualValues(t, 2, serial())
	require.NoError(t, os.WriteFile(c.Cert, []byte("none"), 0o600))
	require.EqualValues(t, 2, serial())
	require.NoError(t, os.Remove(c.Cert))
	require.EqualValues(t, 2, serial())

	_, err = tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}) //nolint:gosec // as above
	require.ErrorContains(t, err, "protocol version")
}

func TestWrongTLS(t *testing.T) {
	good := newCertificate(t, t.TempDir(), 1)
	for want, c := range map[string]tlsConfig{
		"-tls-min: \"1.1\" is none of": {good.Cert, good.Key, "1.1"},
		"-tls-min: TLS needs":          {"", "", "1.3"},
		"give both, or none":           {good.Cert, "", "1.2"},
		"-cert and -key: stat ":        {good.Cert + "x", good.Key, "1.2"},
		"-cert and -key: tls: ":        {good.Key, good.Key, "1.2"},
	} {
		_, err := c.config()
		require.ErrorContains(t, err, want)
	}
	none, err := new(tlsConfig).config()
	require.NoError(t, err)
	require.Nil(t, none)
}
