package replset

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// security is what Options.Secure adds to a set: a key file, by which members know one another and which turns
// authentication on; a certificate authority and one certificate for all members, made for this set alone and
// valid for a day; and an administrator.
//
// Before there is any user, the set is governed as __system, the user that every
// member has, whose password is the key.
type security struct {
	key      string // also the administrator's password
	keyFile  string
	caFile   string
	certFile string // certificate and key of the members
	roots    *x509.CertPool
}

const adminUser = "admin"

// secure makes the files of a secure set below its folder.
func (s *Set) secure() (err error) {
	if !s.opts.Secure {
		return nil
	}
	c := &security{
		keyFile:  filepath.Join(s.dir, "key"),
		caFile:   filepath.Join(s.dir, "ca.pem"),
		certFile: filepath.Join(s.dir, "member.pem"),
		roots:    x509.NewCertPool(),
	}
	random := make([]byte, 48) // base64 of 48 bytes has no padding
	if _, err := rand.Read(random); err != nil {
		return err
	}
	c.key = base64.RawURLEncoding.EncodeToString(random)
	c.key = strings.NewReplacer("-", "a", "_", "b").Replace(c.key) // a key file has no such letters
	var hosts []string
	for _, m := range s.members {
		hosts = append(hosts, m.host())
	}
	ca, member, err := certificates(hosts)
	if err != nil {
		return fmt.Errorf("replset: certificates: %w", err)
	}
	if !c.roots.AppendCertsFromPEM(ca) {
		return fmt.Errorf("replset: certificates: own authority not understood")
	}
	for path, content := range map[string][]byte{c.keyFile: []byte(c.key), c.caFile: ca, c.certFile: member} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	s.security = c
	return nil
}

// certificates returns an authority's certificate, and one with its key for hosts, in PEM. Members connect to one
// another, so it is good for servers and clients.
func certificates(hosts []string) (ca, member []byte, err error) {
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial),
			Subject:      pkix.Name{CommonName: name, Organization: []string{"fairlock tests"}},
			NotBefore:    time.Now().Add(-time.Hour),
			NotAfter:     time.Now().Add(24 * time.Hour),
		}
	}
	authority := template(1, "fairlock test authority")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}

	server := template(2, "fairlock test member")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	return block("CERTIFICATE", caDER), append(block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)...), nil
}

// args is what a secure member's command line has more. Clients show a password and no certificate.
func (c *security) args() []string {
	if c == nil {
		return nil
	}
	return []string{
		"--keyFile", c.keyFile,
		"--tlsMode", "requireTLS",
		"--tlsCAFile", c.caFile,
		"--tlsCertificateKeyFile", c.certFile,
		"--tlsAllowConnectionsWithoutCertificates",
	}
}

// govern lets a client of this package in, as the one who may do everything.
func (c *security) govern(o *options.ClientOptions) *options.ClientOptions {
	if c == nil {
		return o
	}
	return o.SetTLSConfig(&tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}).SetAuth(options.Credential{
		AuthMechanism: "SCRAM-SHA-256", AuthSource: "local", Username: "__system", Password: c.key,
	})
}

// makeAdmin makes the user of [Set.URI].
func (s *Set) makeAdmin(ctx context.Context) error {
	if s.security == nil {
		return nil
	}
	m, err := s.WaitPrimary(ctx)
	if err != nil {
		return err
	}
	_, err = m.run(ctx, noteLimit, bson.D{
		{Key: "createUser", Value: adminUser},
		{Key: "pwd", Value: s.security.key},
		{Key: "roles", Value: bson.A{"root"}},
		{Key: "writeConcern", Value: bson.D{{Key: "w", Value: len(s.members)}, {Key: "wtimeout", Value: noteLimit.Milliseconds()}}},
	})
	if err != nil {
		return fmt.Errorf("replset: create the administrator: %w", err)
	}
	return nil
}

// URIFor is [Set.URI] for a user of a secure set, who was created in the database authSource.
func (s *Set) URIFor(user, password, authSource string) string {
	uri := s.address()
	if s.security == nil {
		return uri
	}
	more := url.Values{"authSource": {authSource}, "tls": {"true"}, "tlsCAFile": {s.security.caFile}}
	login := url.UserPassword(user, password).String()
	return strings.Replace(uri, "mongodb://", "mongodb://"+login+"@", 1) + "&" + more.Encode()
}

// CAFile is the file with the certificate of the authority that signed those of the members, "" of a set that is
// not secure.
func (s *Set) CAFile() string {
	if s.security == nil {
		return ""
	}
	return s.security.caFile
}
