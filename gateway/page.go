package gateway

import (
	"embed"
	"net/http"
	"strconv"
	"strings"
)

// files are the status page, one file of each kind, and the description. No file refers to anything outside them.
//
//go:embed page/index.html page/app.js page/style.css page/icon.svg openapi.yaml
var files embed.FS

// policy lets the page load its own three files, talk to its own gateway, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

var mimes = map[string]string{
	"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
	"svg": "image/svg+xml", "yaml": "application/yaml",
}

// page serves one of files.
func page(name string) func(*Server, http.ResponseWriter, *http.Request, *Client) {
	path := "page/" + name
	_, ext, _ := strings.Cut(name, ".")
	if ext == "yaml" {
		path = name
	}
	text, err := files.ReadFile(path)
	if err != nil {
		panic("bug: " + err.Error()) // it is embedded
	}
	return func(_ *Server, w http.ResponseWriter, _ *http.Request, _ *Client) {
		h := w.Header()
		h.Set("Content-Type", mimes[ext])
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // the client is gone
	}
}
