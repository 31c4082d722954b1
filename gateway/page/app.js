"use strict";

// The status page: it reads /v1/watch, an event stream, and shows the newest snapshot. fetch and not EventSource, which cannot
// send a token. Nothing from the gateway becomes markup: it is set as text only.
(() => {
  const $ = (id) => document.getElementById(id);
  const store = "fairlock.token";
  const silentAfter = 25_000; // the gateway writes something every 15 s
  let snapshot = null; // newest
  let taken = 0; // when, by performance.now
  let query = "";
  let again = 0; // tries to connect since the last success
  let wake = null; // ends the pause before the next try
  const toggled = new Map(); // name: open or not, where the user has said so

  // ---- the stream

  async function follow() {
    for (;;) {
      let wait = Math.min(500 * 2 ** again, 10_000);
      again++;
      try {
        wait = await connect(wait);
      } catch {
        // the gateway is not there, or the stream broke: told below
      }
      say("down", `Offline, next try in ${Math.ceil(wait / 1000)} s`);
      await new Promise((done) => {
        wake = done;
        setTimeout(done, wait);
      });
      say("connecting", "Connecting");
    }
  }

  // connect reads one stream to its end, and returns the pause before the next.
  async function connect(wait) {
    const abort = new AbortController();
    const headers = { Accept: "text/event-stream" };
    let token = sessionStorage.getItem(store);
    if (!token && (await (await fetch("/healthz", { cache: "no-store", signal: abort.signal })).json()).tokens) {
      await ask("");
      token = sessionStorage.getItem(store);
      say("connecting", "Connecting");
    }
    if (token) headers.Authorization = "Bearer " + token;
    const answer = await fetch("/v1/watch", { headers, cache: "no-store", signal: abort.signal });
    if (answer.status === 401) {
      sessionStorage.removeItem(store);
      await ask("The token is nobody's.");
      again = 0;
      return 0;
    }
    if (!answer.ok) {
      const after = Number(answer.headers.get("Retry-After")) * 1000;
      return Math.max(wait, after || 0);
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    let closing = false;
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), silentAfter);
    };
    try {
      for (;;) {
        alive();
        const { value, done } = await reader.read();
        if (done) return closing ? 1000 : wait;
        text += value;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const event = parse(text.slice(0, end));
          if (event.name === "locks") {
            again = 0;
            take(JSON.parse(event.data));
          } else if (event.name === "closing") {
            closing = true;
          }
        }
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  function parse(block) {
    const event = { name: "", data: "" };
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) event.name = line.slice(7);
      else if (line.startsWith("data: ")) event.data += line.slice(6);
    }
    return event;
  }

  // ask shows the form and returns when a token was given.
  function ask(why) {
    say("locked", "Token needed");
    $("view").hidden = true;
    $("entry").hidden = false;
    $("entry-why").textContent = why;
    $("token").value = "";
    $("token").focus();
    return new Promise((done) => {
      $("entry").onsubmit = (e) => {
        e.preventDefault();
        sessionStorage.setItem(store, $("token").value.trim());
        $("entry").hidden = true;
        done();
      };
    });
  }

  // ---- what is shown

  function say(state, text) {
    const el = $("state");
    if (el.textContent !== text) el.textContent = text;
    el.dataset.state = state;
    const old = snapshot !== null && state !== "live";
    if (old === document.body.classList.contains("stale")) return;
    document.body.classList.toggle("stale", old);
    trouble();
  }

  function take(next) {
    snapshot = next;
    taken = performance.now();
    say("live", "Live");
    $("view").hidden = false;
    draw();
  }

  function draw() {
    if (!snapshot) return;
    const { gateway, locks, more = 0, idle } = snapshot;
    set($("busy"), String(locks.length + more));
    set($("waiting"), String(locks.reduce((n, q) => n + q.waiting, 0)) + (more ? "+" : ""));
    set($("idle"), String(idle));
    set($("gateway"), `${gateway.held} held, ${gateway.waiting} in line`);
    trouble();
    const shown = locks.filter(matches);
    keyed($("locks"), shown, (q) => q.name, "lock", drawLock);
    $("none").hidden = shown.length > 0;
    set($("none"), locks.length === 0 ? "No lock is in use." : `No lock in use matches “${query}”.`);
    $("more").hidden = more === 0;
    set($("more"), `${more} more locks are in use, with shorter queues.`);
    tick();
  }

  // trouble says why what is shown is old, if it is.
  function trouble() {
    let why = "";
    if (document.body.classList.contains("stale")) why = "The gateway does not answer: what is shown was so when it last did.";
    else if (snapshot?.trouble) why = "The database cannot be read, what is shown is old: " + snapshot.trouble;
    $("trouble").hidden = !why;
    set($("trouble"), why);
  }

  function matches(q) {
    if (!query) return true;
    const has = (s) => (s || "").toLowerCase().includes(query);
    return has(q.name) || [...q.holders, ...q.waiters].some((p) => p.owner && has(p.owner.label));
  }

  function drawLock(li, q) {
    const details = li.firstElementChild;
    if (!li.dataset.made) {
      li.dataset.made = "1";
      details.open = toggled.get(q.name) ?? $("locks").children.length < 8;
      details.querySelector("summary").addEventListener("click", () => toggled.set(q.name, !details.open));
    }
    set(li.querySelector(".name bdi"), visible(q.name));
    set(li.querySelector(".kind"), kindOf(q));
    const holders = q.held; // of which the newest may not be in q.holders
    set(li.querySelector(".who bdi"), holders === 0 ? "nobody yet" : holders === 1 ? nameOf(q.holders[0]) : `${holders} holders`);
    li.classList.toggle("free", holders === 0);
    set(li.querySelector(".count"), q.waiting === 0 ? "nobody waits" : q.waiting === 1 ? "1 waits" : `${q.waiting} wait`);
    keyed(li.querySelector(".line"), [...q.holders, ...q.waiters], (p) => String(p.token), "place", drawPlace);
    const rest = li.querySelector(".rest");
    const beside = holders - q.holders.length;
    set(rest, [beside > 0 ? `${beside} more hold it` : "", q.more ? `${q.more} more wait behind them` : ""].filter(Boolean).join(", "));
    rest.hidden = !rest.textContent;
  }

  function drawPlace(li, p) {
    const o = p.owner;
    li.classList.toggle("holds", p.position === 0);
    li.classList.toggle("dead", Boolean(o && (o.dead || o.leaseLeftMs < 0)));
    set(li.querySelector(".pos"), p.position === 0 ? "holds" : String(p.position));
    set(li.querySelector(".label bdi"), nameOf(p));
    set(li.querySelector(".where"), o ? `${o.host}:${o.pid}` : "");
    set(li.querySelector(".token"), `token ${p.token}`);
    const time = li.querySelector(".time");
    time.dataset.ms = o ? String(p.position === 0 ? o.heldMs ?? o.ageMs : o.ageMs) : "";
    time.dataset.word = p.position === 0 ? "for" : "since";
  }

  // visible shows control and other invisible characters as escapes, as the command line does: none may turn the direction of the text.
  const visible = (s) => s.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

  const nameOf = (p) => (p.owner ? visible(p.owner.label || p.owner.session) : "not named yet");

  function kindOf(q) {
    if (q.kind === "semaphore") return `semaphore of ${q.permits}`;
    return q.kind === "rw" ? "read/write" : q.kind;
  }

  // keyed makes the children of list be those of items, in order. Elements of the same key stay, with their focus.
  function keyed(list, items, key, template, update) {
    const old = new Map([...list.children].map((el) => [el.dataset.key, el]));
    let at = list.firstElementChild;
    for (const item of items) {
      const k = key(item);
      let el = old.get(k);
      old.delete(k);
      if (!el) {
        el = $(template).content.firstElementChild.cloneNode(true);
        el.dataset.key = k;
      }
      if (el === at) at = at.nextElementSibling;
      else if (at && old.has(at.dataset.key) && at.nextElementSibling === el) {
        // The one before has gone: to take it away moves nothing that has the focus.
        old.delete(at.dataset.key);
        at.remove();
        at = el.nextElementSibling;
      } else list.insertBefore(el, at);
      update(el, item);
    }
    for (const el of old.values()) el.remove();
  }

  function set(el, text) {
    if (el.textContent !== text) el.textContent = text;
  }

  // ---- clocks, which go on between snapshots

  function tick() {
    if (!snapshot || document.body.classList.contains("stale")) return; // what is old does not grow older before one's eyes
    const passed = performance.now() - taken;
    set($("uptime"), span(snapshot.gateway.uptimeMs + passed));
    for (const el of document.querySelectorAll(".time")) {
      set(el, el.dataset.ms === "" ? "" : `${el.dataset.word === "for" ? "for" : "in line for"} ${span(Number(el.dataset.ms) + passed)}`);
    }
  }

  function span(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  // ---- keys

  $("filter").addEventListener("input", () => {
    query = $("filter").value.trim().toLowerCase();
    draw();
  });

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const typing = e.target instanceof HTMLInputElement;
    if (e.key === "/" && !typing && !$("view").hidden) {
      e.preventDefault();
      $("filter").focus();
    } else if (e.key === "Escape" && e.target === $("filter")) {
      $("filter").value = "";
      query = "";
      draw();
    } else if ((e.key === "ArrowDown" || e.key === "ArrowUp") && !(typing && e.target !== $("filter"))) {
      const rows = [...document.querySelectorAll(".lock summary")];
      const next = rows.indexOf(document.activeElement) + (e.key === "ArrowDown" ? 1 : -1);
      if (next < 0 || next >= rows.length) return;
      e.preventDefault();
      rows[next].focus();
    }
  });

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && wake) wake();
  });

  setInterval(tick, 1000);
  follow();
})();
