package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/gateway"
)

var (
	wide   = look{1200, 800, false}
	narrow = look{360, 740, false}
)

// places is the labels of a lock's line, as they are seen.
func places(lock string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.lock[data-key=%q] .place')].filter(e => e.checkVisibility() && e.getBoundingClientRect().height > 0)
		.map(e => e.querySelector('.pos').textContent + ' ' + e.querySelector('.label').textContent.trim()).join(', ')`, lock)
}

// queue makes a holder and three who wait, and shows them.
func queue(t *testing.T, l look) (*bed, *tab) {
	b := newBed(t, gateway.Config{})
	b.put("holder", `"name":"invoices","label":"worker 1"`)
	for i := 2; i <= 4; i++ {
		b.put(fmt.Sprint("wait", i), fmt.Sprintf(`"name":"invoices","label":"worker %d"`, i))
	}
	p := open(t, l)
	p.visit(b.url())
	p.until(places("invoices") + ` === "holds worker 1, 1 worker 2, 2 worker 3, 3 worker 4"`)
	return b, p
}

// TestQueueMoves: three wait, visibly, and the line moves within a second of a release.
func TestQueueMoves(t *testing.T) {
	for _, l := range []look{wide, narrow, {1200, 800, true}, {360, 740, true}} {
		t.Run(fmt.Sprintf("%d dark=%v", l.width, l.dark), func(t *testing.T) {
			b, p := queue(t, l)
			require.Equal(t, "3 wait", p.text(`document.querySelector('.count').textContent`))
			require.Equal(t, "Live", p.text(`document.getElementById('state').textContent`))
			began := time.Now()
			b.release("holder")
			at := p.until(places("invoices") + ` === "holds worker 2, 1 worker 3, 2 worker 4"`)
			require.Less(t, time.UnixMicro(int64(at*1000)).Sub(began), time.Second)

			// It may not be wider than the screen, in anything.
			var overflow []string
			p.eval(`[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.skip') &&
				e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(e => e.outerHTML.slice(0, 100))`, &overflow)
			require.Empty(t, overflow)
			require.Equal(t, fmt.Sprint(l.width), p.text(`String(document.scrollingElement.scrollWidth)`))
			p.readable()
		})
	}
}

// readable requires that text stands out from what is behind it by 4.5 to 1 at least (WCAG AA), and that what is pressed is large enough.
func (p *tab) readable() {
	p.t.Helper()
	var faint, small []string
	p.eval(`(() => {
		const rgb = (s) => s.match(/[\d.]+/g).map(Number);
		const lum = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
		return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
			const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(behind(e))];
			return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e];
		}).filter(([ratio]) => ratio < 4.5).map(([ratio, e]) => ratio.toFixed(2) + " " + e.outerHTML.slice(0, 120));
	})()`, &faint)
	require.Empty(p.t, faint, "contrast")
	p.eval(`[...document.querySelectorAll('summary, button, input')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 24)
		.map((e) => e.outerHTML.slice(0, 100))`, &small)
	require.Empty(p.t, small, "too small to be pressed")
}

// TestKeyboard: everything can be done from a keyboard, is seen to have the focus, and keeps it while the line moves.
func TestKeyboard(t *testing.T) {
	b, p := queue(t, narrow)
	b.put("other", `"name":"backup","label":"cron"`)
	p.until(`document.querySelectorAll('.lock').length === 2`)
	active := func() string {
		return p.text(`document.activeElement.id || document.activeElement.className || document.activeElement.closest('.lock')?.dataset.key || document.activeElement.tagName`)
	}
	ring := func() {
		t.Helper()
		require.NotEqual(t, "none", p.text(`getComputedStyle(document.activeElement).outlineStyle`))
	}
	p.press("Tab")
	require.Equal(t, "skip", active())
	require.Equal(t, "true", p.text(`String(document.activeElement.getBoundingClientRect().left >= 0)`), "the link is seen when it has the focus")
	p.press("Enter")
	require.Equal(t, "main", active())
	p.press("Tab")
	require.Equal(t, "filter", active())
	ring()
	p.press("Tab")
	require.Equal(t, "invoices", active())
	ring()
	open := `String(document.querySelector('.lock[data-key=invoices] details').open)`
	require.Equal(t, "true", p.text(open))
	p.press("Enter")
	require.Equal(t, "false", p.text(open))
	p.press(" ")
	require.Equal(t, "true", p.text(open))
	p.press("ArrowDown")
	require.Equal(t, "backup", active())
	p.press("ArrowUp")
	require.Equal(t, "invoices", active())
	p.press("ArrowUp")
	require.Equal(t, "invoices", active())

	b.release("holder")
	p.until(places("invoices") + ` === "holds worker 2, 1 worker 3, 2 worker 4"`)
	require.Equal(t, "invoices", active(), "keeps the focus")
	// A lock before it in the list goes, another comes.
	for i := range 5 {
		b.put(fmt.Sprint("more", i), `"name":"crowd"`)
	}
	p.until(`document.querySelector('.lock').dataset.key === "crowd"`)
	require.Equal(t, "invoices", active(), "keeps the focus")
	for i := 4; i >= 0; i-- {
		b.release(fmt.Sprint("more", i))
	}
	p.until(`document.querySelector('.lock').dataset.key === "invoices"`)
	require.Equal(t, "invoices", active(), "keeps the focus")

	p.press("/")
	require.Equal(t, "filter", active())
	p.write("cron")
	p.until(`document.querySelectorAll('.lock').length === 1 && document.querySelector('.lock').dataset.key === "backup"`)
	p.write("x")
	p.until(`document.getElementById('none').checkVisibility()`)
	require.Equal(t, "No lock in use matches “cronx”.", p.text(`document.getElementById('none').textContent`))
	p.press("Escape")
	p.until(`document.querySelectorAll('.lock').length === 2`)
}

// TestAccessible: what is no text has a name, for those who do not see it.
func TestAccessible(t *testing.T) {
	_, p := queue(t, wide)
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value string }
		}
	}
	p.call("Accessibility.getFullAXTree", map[string]any{}, &tree)
	roles := map[string]string{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		roles[n.Role.Value] += n.Name.Value + "|"
		switch n.Role.Value {
		case "searchbox", "textbox", "button", "link", "image", "heading", "DisclosureTriangle":
			require.NotEmpty(t, strings.TrimSpace(n.Name.Value), n.Role.Value)
		}
	}
	require.Contains(t, roles["searchbox"], "Filter by name or label")
	require.Contains(t, roles["heading"], "fairlock")
	require.Contains(t, roles["DisclosureTriangle"], "invoices")
	require.Contains(t, roles["list"], "Locks in use")
	require.NotEmpty(t, roles["main"])
	require.NotEmpty(t, roles["status"])
	require.Equal(t, "en", p.text("document.documentElement.lang"))
}

// TestManyHolders: all are counted, also those that are not shown.
func TestManyHolders(t *testing.T) {
	b := newBed(t, gateway.Config{})
	for i := range 26 {
		b.put(fmt.Sprint("s", i), `"name":"mail quota","kind":"semaphore","permits":25`)
	}
	p := open(t, narrow)
	p.visit(b.url())
	p.until(`document.querySelector('.lock .who')?.textContent.trim() === "25 holders"`)
	require.Equal(t, "5 more hold it", p.text(`document.querySelector('.lock .rest').textContent`))
	require.Equal(t, "1 waits", p.text(`document.querySelector('.lock .count').textContent`))
	require.Equal(t, "20", p.text(`String(document.querySelectorAll('.place.holds').length)`))
}

// TestHostileNames: whatever a lock or its holder is called is text.
func TestHostileNames(t *testing.T) {
	b := newBed(t, gateway.Config{})
	name := `<img src=x onerror=alert(1)>"';--&amp;`
	b.put("a", `"name":"<img src=x onerror=alert(1)>\"';--&amp;","label":"<script>document.title='taken'</script>"`)
	b.put("b", `"name":"`+strings.Repeat("long", 60)+`","label":"`+strings.Repeat("l", 128)+`"`)
	b.put("c", `"name":"\u202egnp.txt","label":"日本語 ключ 🔒"`)
	p := open(t, narrow)
	p.visit(b.url())
	p.until(`document.querySelectorAll('.lock').length === 3 && [...document.querySelectorAll('.place .label')].every((e) => e.textContent.trim() !== 'not named yet')`)
	var names []string
	p.eval(`[...document.querySelectorAll('.lock .name')].map((e) => e.textContent)`, &names)
	require.Contains(t, names, name)
	require.Contains(t, names, `\u{202e}gnp.txt`, "an invisible character is shown")
	require.Equal(t, "0", p.text(`String(document.querySelectorAll('.lock img, .lock script').length)`))
	require.Equal(t, "fairlock: queues", p.text("document.title"))
	require.Equal(t, "360", p.text(`String(document.scrollingElement.scrollWidth)`))
	p.picture("hostile-360")
}

// TestToken: the page asks for a token, says when it is wrong, and keeps it for the tab.
func TestToken(t *testing.T) {
	b := newBed(t, gateway.Config{Clients: []gateway.Client{
		{Name: "alice", Token: "0123456789abcdef"}, {Name: "watch", Token: "fedcba9876543210", ReadOnly: true},
	}})
	b.put("a", `"name":"invoices"`)
	p := open(t, narrow)
	p.visit(b.url())
	p.until(`document.activeElement.id === "token"`)
	p.picture("token-360")
	p.readable()
	p.quiet()
	p.expect("401")
	p.write("wrong-0123456789")
	p.press("Enter")
	p.until(`document.getElementById('entry-why').textContent === "The token is nobody's." && document.getElementById('entry').checkVisibility()`)
	p.write("fedcba9876543210")
	p.press("Enter")
	p.until(places("invoices") + ` === "holds alice"`)
	p.visit(b.url())
	p.until(places("invoices") + ` === "holds alice"`)
}

// TestGatewayComesBack: the page says that it is not connected, and goes on when it is again.
func TestGatewayComesBack(t *testing.T) {
	b, p := queue(t, wide)
	p.expect("ERR_CONNECTION_REFUSED")
	p.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	b.stop()
	p.until(`document.getElementById('state').dataset.state === "down"`)
	p.until(`document.getElementById('trouble').checkVisibility()`)
	p.readable()
	p.picture("down-1200")
	b.serve(b.db, gateway.Config{}, b.addr)
	p.until(`document.getElementById('state').dataset.state === "live" && document.querySelectorAll('.lock').length === 0`)
	require.Equal(t, "false", p.text(`String(document.getElementById('trouble').checkVisibility())`))
	require.Equal(t, "No lock is in use.", p.text(`document.getElementById('none').textContent`))
}

// TestPictures: pages to be looked at, with all that there is to see.
func TestPictures(t *testing.T) {
	b := newBed(t, gateway.Config{})
	lock, err := b.m.Lock(t.Context(), "reports/nightly")
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Unlock(t.Context())) }()
	b.put("i1", `"name":"invoices","label":"worker 1"`)
	for i := 2; i <= 26; i++ {
		b.put(fmt.Sprint("i", i), fmt.Sprintf(`"name":"invoices","label":"worker %d"`, i))
	}
	b.put("long", `"name":"`+strings.Repeat("a/very/long/name/of/a/lock/", 9)+`","label":"`+strings.Repeat("long-", 25)+`"`)
	for i := range 3 {
		b.put(fmt.Sprint("s", i), fmt.Sprintf(`"name":"mail quota","kind":"semaphore","permits":2,"label":"mailer-%c"`, 'a'+i))
		b.put(fmt.Sprint("r", i), fmt.Sprintf(`"name":"catalogue","kind":"read","label":"web-%d"`, i+1))
	}
	b.put("w", `"name":"catalogue","kind":"write","label":"import of the price list"`)
	b.put("n", `"name":"reports/nightly","label":"second try"`)
	p := open(t, wide)
	p.visit(b.url())
	p.until(`document.querySelectorAll('.lock').length === 5 && [...document.querySelectorAll('.place .label')].every((e) => e.textContent.trim() !== 'not named yet')`)
	p.eval(`document.querySelector('.lock[data-key=invoices] summary').click()`, nil)
	for _, l := range []look{{1200, 800, false}, {1200, 800, true}, {360, 740, false}, {360, 740, true}} {
		p.show(l)
		p.readable()
		p.picture(fmt.Sprintf("queues-%d-%v", l.width, map[bool]string{false: "light", true: "dark"}[l.dark]))
	}
	p.eval(`document.querySelector('.lock[data-key=invoices] summary').click()`, nil)
	p.show(wide)
	p.picture("queues-open")
	p.press("/")
	p.write("mail")
	p.until(`document.querySelectorAll('.lock').length === 1`)
	p.picture("filtered-1200")
}

// TestNothing: no lock at all, and then no gateway either.
func TestNothing(t *testing.T) {
	b := newBed(t, gateway.Config{})
	p := open(t, wide)
	p.visit(b.url())
	for _, l := range []look{wide, {1200, 800, true}, narrow} {
		p.show(l)
		p.until(`document.getElementById('none').checkVisibility()`)
		p.readable()
		p.picture(fmt.Sprintf("empty-%d-%v", l.width, map[bool]string{false: "light", true: "dark"}[l.dark]))
	}
	p.expect("ERR_CONNECTION_REFUSED")
	p.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	b.stop()
	b.stop = func() {}
	p.until(`document.getElementById('state').dataset.state === "down" && document.getElementById('trouble').checkVisibility()`)
	p.readable()
	p.picture("empty-down-360")
}
