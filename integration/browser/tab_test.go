package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limit is the time after which a test that waits has failed.
const limit = 30 * time.Second

// tab is one page in a browser context of its own.
type tab struct {
	t       *testing.T
	b       *browser
	session string
	context string

	mu    sync.Mutex // guards said
	said  []string   // what the console has, of errors and warnings
	allow []string   // what of it is expected
}

// hub gives events to the tabs.
type hub struct {
	mu   sync.Mutex
	tabs map[string]*tab
}

func (h *hub) hear(m message) {
	h.mu.Lock()
	t := h.tabs[m.Session]
	h.mu.Unlock()
	if t != nil {
		t.hear(m)
	}
}

// look is how a page is shown.
type look struct {
	width, height int
	dark          bool
}

// open makes a tab. At the end of the test there must be nothing in its console.
func open(t *testing.T, l look) *tab {
	t.Helper()
	p := &tab{t: t, b: shared.b}
	var made struct{ BrowserContextID, TargetID, SessionID string }
	p.call("Target.createBrowserContext", map[string]any{"disposeOnDetach": true}, &made)
	p.context = made.BrowserContextID
	p.call("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": p.context}, &made)
	p.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	p.session = made.SessionID
	shared.hub.mu.Lock()
	shared.hub.tabs[p.session] = p
	shared.hub.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Accessibility"} {
		p.call(domain+".enable", map[string]any{}, nil)
	}
	p.show(l)
	t.Cleanup(func() {
		p.quiet()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = p.b.call(ctx, "", "Target.disposeBrowserContext", map[string]any{"browserContextId": p.context}, nil)
	})
	return p
}

// show sets size and colours.
func (p *tab) show(l look) {
	p.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": l.width, "height": l.height, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
	scheme := map[bool]string{false: "light", true: "dark"}[l.dark]
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
}

func (p *tab) call(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	require.NoError(p.t, p.b.call(ctx, p.session, method, params, result))
}

// hear notes errors and warnings, of scripts and of the browser: a refused policy, a failed request.
func (p *tab) hear(m message) {
	var e struct {
		Type  string
		Args  []struct{ Value, Description any }
		Entry struct{ Level, Text, URL string }

		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	_ = json.Unmarshal(m.Params, &e)
	text := ""
	switch {
	case m.Method == "Runtime.consoleAPICalled" && (e.Type == "error" || e.Type == "warning" || e.Type == "assert"):
		text = fmt.Sprint(e.Type, ": ", e.Args)
	case m.Method == "Runtime.exceptionThrown":
		text = "exception: " + e.ExceptionDetails.Text + " " + e.ExceptionDetails.Exception.Description
	case m.Method == "Log.entryAdded" && (e.Entry.Level == "error" || e.Entry.Level == "warning"):
		text = e.Entry.Level + ": " + e.Entry.Text + " " + e.Entry.URL
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, text)
}

// expect makes console lines with that text no fault.
func (p *tab) expect(text string) { p.allow = append(p.allow, text) }

// quiet requires that the console has nothing but what is expected.
func (p *tab) quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	said := slices.DeleteFunc(slices.Clone(p.said), func(s string) bool {
		return slices.ContainsFunc(p.allow, func(a string) bool { return strings.Contains(s, a) })
	})
	if len(said) > 0 {
		p.t.Errorf("console: %s", strings.Join(said, "\n"))
	}
}

func (p *tab) visit(url string) {
	p.t.Helper()
	var r struct{ ErrorText string }
	p.call("Page.navigate", map[string]any{"url": url}, &r)
	require.Empty(p.t, r.ErrorText)
	p.eval(`new Promise((done) => document.readyState === "complete" ? done(1) : addEventListener("load", () => done(1)))`, nil)
}

// eval evaluates an expression, and waits if it is a promise.
func (p *tab) eval(expr string, v any) {
	p.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expr, "awaitPromise": true, "returnByValue": true}, &r)
	require.Nil(p.t, r.ExceptionDetails, "%s: %+v", expr, r.ExceptionDetails)
	if v != nil {
		require.NoError(p.t, json.Unmarshal(r.Result.Value, v), "%s", expr)
	}
}

func (p *tab) text(expr string) (s string) {
	p.t.Helper()
	p.eval(expr, &s)
	return s
}

// until waits until an expression is true, as the page changes, and returns when that was by the page's clock, in ms since its beginning.
func (p *tab) until(cond string) (at float64) {
	p.t.Helper()
	p.eval(`new Promise((done, fail) => {
		const check = () => { if (`+cond+`) { seen.disconnect(); clearTimeout(end); done(performance.timeOrigin + performance.now()); } };
		const seen = new MutationObserver(check);
		const end = setTimeout(() => { seen.disconnect(); fail(new Error("not within the limit: " + document.body.innerText)); }, 15000);
		seen.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		check();
	})`, &at)
	return at
}

// press presses and lets go of a key.
func (p *tab) press(key string) {
	p.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, " ": 32}
	down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["text"] = "\r"
	} else if len(key) == 1 {
		down["text"] = key
	}
	p.call("Input.dispatchKeyEvent", down, nil)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

func (p *tab) write(text string) {
	p.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// picture leaves a picture of the page in the folder of FAIRLOCK_SHOTS, if it is set.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("FAIRLOCK_SHOTS")
	if dir == "" {
		return
	}
	var r struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &r)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	require.NoError(p.t, err)
	require.NoError(p.t, os.MkdirAll(dir, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644))
}
