// Building and changing the page. Text is only ever set as text: names come from workers,
// clients and tenants, and may hold anything.

export const $ = (id) => document.getElementById(id);

// h makes an element: h("p", {class: "lead"}, "text", child).
export function h(tag, attributes, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null && value !== false) el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.filter((c) => c !== undefined && c !== null && c !== ""));
  return el;
}

// text sets an element's text if it is another one.
export function text(el, value) {
  const s = String(value);
  if (el.textContent !== s) el.textContent = s;
}

export function attribute(el, name, value) {
  if (value === undefined || value === null || value === false) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) {
    el.setAttribute(name, value);
  }
}

// part sets how full a bar or how hot a cell is, from 0 to 1.
export function part(el, value) {
  const v = Math.max(0, Math.min(1, value || 0)).toFixed(3);
  if (el.style.getPropertyValue("--part") !== v) el.style.setProperty("--part", v);
}

const children = new WeakMap();

// list makes the children of parent those of items, in order. Elements stay the same for
// the same key, so that focus, selection and what is unfolded stay, too.
export function list(parent, items, key, make, update) {
  const before = children.get(parent) || new Map();
  const after = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    if (after.has(k)) continue;
    let el = before.get(k);
    if (!el) el = make(item);
    update(el, item);
    after.set(k, el);
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
  }
  for (const [k, el] of before) if (!after.has(k)) el.remove();
  children.set(parent, after);
}

// parts finds the marked elements in el, once.
const found = new WeakMap();
export function marked(el) {
  let m = found.get(el);
  if (!m) {
    m = {};
    for (const e of el.querySelectorAll("[data-is]")) m[e.dataset.is] = e;
    found.set(el, m);
  }
  return m;
}

const count = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (n) => count.format(n || 0);
export const brief = (n) => (Math.abs(n) < 10000 ? count.format(n || 0) : compact.format(n));
export const percent = (part, whole) => (whole > 0 ? Math.round((100 * part) / whole) + "%" : "–");
export const plural = (n, one, many) => number(n) + " " + (n === 1 ? one : many || one + "s");

// time says a duration given in milliseconds.
export function time(ms) {
  if (ms === undefined || ms === null) return "–";
  if (ms < 0.95) return ms <= 0 ? "0 ms" : "<1 ms";
  if (ms < 9.95) return ms.toFixed(1) + " ms";
  if (ms < 999.5) return Math.round(ms) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
  if (ms < 3600000) return Math.floor(ms / 60000) + " min " + Math.round((ms % 60000) / 1000) + " s";
  return Math.floor(ms / 3600000) + " h " + Math.round((ms % 3600000) / 60000) + " min";
}

export const bytes = (n) => (n < 1 << 20 ? Math.round(n / 1024) + " KiB" : n < 1 << 30 ? (n / (1 << 20)).toFixed(1) + " MiB" : (n / (1 << 30)).toFixed(1) + " GiB");

// clock is a <time> of Unix milliseconds, with its date if that is not today.
export function clock(ms) {
  const d = new Date(ms);
  const date = d.toDateString() === new Date().toDateString() ? "" : d.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + " ";
  return h("time", { datetime: d.toISOString() }, date + d.toLocaleTimeString("en-GB"));
}

// morph makes the children of an element like those of another, and keeps what is alike:
// with it focus, what is selected, and how far something is scrolled.
export function morph(el, like) {
  const wanted = [...like.childNodes];
  while (el.childNodes.length > wanted.length) el.lastChild.remove();
  wanted.forEach((next, i) => {
    const old = el.childNodes[i];
    if (!old) el.append(next);
    else if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) old.replaceWith(next);
    else if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== next.data) old.data = next.data;
    } else {
      for (const name of old.getAttributeNames()) if (!next.hasAttribute(name)) old.removeAttribute(name);
      for (const name of next.getAttributeNames()) attribute(old, name, next.getAttribute(name));
      morph(old, next);
    }
  });
}

// badge is a word with a sign of its own, so that its colour is not all that tells.
export const signs = {
  exact: "✓", approximate: "≈", suspect: "!", resyncing: "↻", blind: "?",
  healthy: "✓", unhealthy: "✕", pending: "…", draining: "⇥", good: "✓", warn: "!", bad: "✕", shadow: "◌", out: "✕", plain: "·", enforce: "●",
};
export function badge(kind, words) {
  const el = h("span", { class: "badge" }, h("span", { "aria-hidden": "true", "data-is": "sign" }), h("span", { "data-is": "words" }));
  return setBadge(el, kind, words);
}
export function setBadge(el, kind, words) {
  const m = marked(el);
  attribute(el, "data-kind", kind);
  text(m.sign, signs[kind] || "·");
  text(m.words, words || kind);
  return el;
}

export const rankName = (name, rank) => (rank ? name + " rank " + rank : name);

let said = "";
let waiting = [];
let more = 0; // sentences that would be too much to listen to
let timer = 0;

// announce tells those who listen instead of look, not more often than every few seconds.
export function announce(sentence) {
  if (waiting.length < 5) waiting.push(sentence);
  else more++;
  if (timer) return;
  timer = setTimeout(() => {
    said = waiting.join(" ") + (more ? ` And ${plural(more, "other change")}.` : "");
    waiting = [];
    more = 0;
    timer = 0;
    text($("announcer"), said);
  }, 1500);
}
