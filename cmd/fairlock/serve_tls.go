package main

import (
	"crypto/tls"
	"sync"
	"time"
)

// keyPair is a certificate in files that are replaced when it is renewed. They are looked at once in a while, at a handshake; while the new
// ones are not yet complete, or do not fit each other, the old ones serve.
type keyPair struct {
	cert, key string

	mu     sync.Mutex // guards all below
	loaded *tls.Certificate
	stamp  [2]fileStamp // of the files that are loaded
	looked time.Time
}

const lookEvery = time.Second

// get is tls.Config.GetCertificate.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.loaded != nil && time.Since(k.looked) < lookEvery {
		return k.loaded, nil
	}
	k.looked = time.Now()
	stamp := [2]fileStamp{stampOf(k.cert), stampOf(k.key)}
	var err error
	if k.loaded == nil || stamp != k.stamp {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(k.cert, k.key); err == nil {
			k.loaded, k.stamp = &pair, stamp
		}
	}
	if k.loaded != nil {
		return k.loaded, nil
	}
	return nil, err
}
