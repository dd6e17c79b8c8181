// Runs lego as a library, since its own command needs the SDKs of all DNS providers.
// Arguments: issue, renew, due or revoke, and a name. Its files are in the working directory.
package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/lego"
	"github.com/go-acme/lego/v5/registration"
)

type user struct {
	key          crypto.Signer
	registration *acme.ExtendedAccount
}

func (u *user) GetEmail() string                       { return "" }
func (u *user) GetRegistration() *acme.ExtendedAccount { return u.registration }
func (u *user) GetPrivateKey() crypto.Signer           { return u.key }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The account key of an earlier run, or a new one.
func accountKey() (key *ecdsa.PrivateKey, isNew bool) {
	if text, err := os.ReadFile("account.key"); err == nil {
		block, _ := pem.Decode(text)
		key, err := x509.ParseECPrivateKey(block.Bytes)
		check(err)
		return key, false
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	der, err := x509.MarshalECPrivateKey(key)
	check(err)
	check(os.WriteFile("account.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	return key, true
}

func register(ctx context.Context, client *lego.Client, isNew bool) *acme.ExtendedAccount {
	if !isNew {
		account, err := client.Registration.ResolveAccountByKey(ctx)
		check(err)
		return account
	}
	account, err := client.Registration.RegisterWithExternalAccountBinding(ctx, registration.RegisterEABOptions{
		TermsOfServiceAgreed: true, Kid: os.Getenv("KID"), HmacEncoded: os.Getenv("HMAC_KEY"),
	})
	check(err)
	return account
}

func main() {
	action, name := os.Args[1], os.Args[2]
	ctx := context.Background()
	check(os.Setenv("LEGO_CA_CERTIFICATES", os.Getenv("ROOT")))
	key, isNew := accountKey()
	account := &user{key: key}
	config := lego.NewConfig(account)
	config.CADirURL = os.Getenv("DIRECTORY")
	client, err := lego.NewClient(config)
	check(err)
	account.registration = register(ctx, client, isNew)

	request := certificate.ObtainRequest{Domains: []string{name}, Bundle: true, KeyType: certcrypto.EC256}
	file := name + ".pem"
	switch action {
	case "revoke":
		held, err := os.ReadFile(file)
		check(err)
		check(client.Certificate.Revoke(ctx, held))
		return
	case "due":
		held, err := os.ReadFile(file)
		check(err)
		chain, err := certcrypto.ParsePEMBundle(held)
		check(err)
		info, err := client.Certificate.GetRenewalInfo(ctx, chain[0])
		check(err)
		if info.ShouldRenewAt(time.Now(), 0) == nil {
			fmt.Println("not due")
			return
		}
	}
	resource, err := client.Certificate.Obtain(ctx, request)
	check(err)
	check(os.WriteFile(file, resource.Certificate, 0o600))
}
