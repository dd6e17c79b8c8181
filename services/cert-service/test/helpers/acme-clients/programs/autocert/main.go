// Asks autocert for a certificate as a handshake does.
// Arguments: issue, renew, due or revoke, and a name. Its files are in the working directory.
package main

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	action, name := os.Args[1], os.Args[2]
	ctx := context.Background()
	root, err := os.ReadFile(os.Getenv("ROOT"))
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	mac, err := base64.RawURLEncoding.DecodeString(os.Getenv("HMAC_KEY"))
	check(err)
	cache := autocert.DirCache("cache")
	client := &acme.Client{
		DirectoryURL: os.Getenv("DIRECTORY"),
		HTTPClient:   &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}
	manager := &autocert.Manager{
		Prompt:                 autocert.AcceptTOS,
		Cache:                  cache,
		Client:                 client,
		ExternalAccountBinding: &acme.ExternalAccountBinding{KID: os.Getenv("KID"), Key: mac},
	}
	// It renews by the end of its certificate alone. Without what it has in its cache it orders again.
	if action == "renew" {
		check(cache.Delete(ctx, name))
	}
	held, err := manager.GetCertificate(&tls.ClientHelloInfo{
		ServerName:       name,
		CipherSuites:     []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		SupportedCurves:  []tls.CurveID{tls.CurveP256},
	})
	check(err)
	if action == "revoke" {
		check(client.RevokeCert(ctx, held.PrivateKey.(crypto.Signer), held.Certificate[0], acme.CRLReasonUnspecified))
		return
	}
	var text []byte
	for _, der := range held.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	check(os.WriteFile(name+".pem", text, 0o600))
}
