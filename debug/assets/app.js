// The page's state: what came last, which view is open, whether it is paused.
import { $, announce, attribute, clock, h, list, marked, number, brief, percent, text, time, part } from "./dom.js";
import { fleet, changes } from "./fleet.js";
import { heat } from "./heat.js";
import { decisions } from "./decisions.js";
import { policy } from "./policy.js";
import { refusals, log } from "./refusals.js";

const views = { fleet, heat, decisions, policy, refusals, log };
const titles = { fleet: "Fleet", heat: "Heat map", decisions: "Decisions", policy: "Policy", refusals: "Turned away", log: "Log" };
const kept = 200; // decisions, as many as the router keeps
const step = 10, span = 300; // seconds of a moment, and of all that are kept

const world = { latest: null, decisions: new Map(), policy: null, rejections: [], notes: [], moments: new Map() };
let view = "fleet";
let paused = false;

// take takes in a state: all of it, or what has changed.
function take(state) {
  heard = performance.now();
  every = state.everyMs || every;
  if (!state.sums) { // it could not be written
    text($("problem"), state.problem || "The state could not be read.");
    $("problem").hidden = false;
    return;
  }
  if (state.full) {
    world.decisions.clear();
    world.moments.clear();
  }
  for (const m of state.history || []) world.moments.set(m.at, m);
  for (const at of world.moments.keys()) if (at < state.at - span * 1000) world.moments.delete(at);
  for (const d of state.decisions || []) world.decisions.set(d.id, d);
  if (world.decisions.size > kept) {
    const ids = [...world.decisions.keys()].sort((a, b) => a - b);
    for (const id of ids.slice(0, ids.length - kept)) world.decisions.delete(id);
  }
  if (state.policy) world.policy = state.policy;
  if (state.rejections || state.full) world.rejections = state.rejections || [];
  if (state.notes || state.full) world.notes = state.notes || [];
  const before = world.latest;
  world.latest = state;
  // What could not be read stays as it was, and is no change.
  for (const name of state.unread || []) {
    if (before && name in before) state[name] = before[name];
    if (before && name === "workers") state.fleet = before.fleet;
  }
  if (before && !before.problem && !state.problem) for (const sentence of changes(before, state)) announce(sentence);
  if (!paused) render();
}

function render() {
  const state = world.latest;
  if (!state || !state.sums) return;
  text($("problem"), state.problem || "");
  $("problem").hidden = !state.problem;
  tiles(state);
  views[view](world);
  $("updated").replaceChildren("As of ", clock(state.at), ".");
  const title = `KVSteer ${state.fleet.routable}/${state.fleet.workers} · ${titles[view]}`;
  if (document.title !== title) document.title = title;
}

// since is what has been added to a sum over the last seconds, and up to one moment more.
function since(name, seconds) {
  const ends = world.latest.at;
  const from = Math.floor(ends / (step * 1000)) * step * 1000 - seconds * 1000;
  let by = 0;
  for (const m of world.moments.values()) if (m.at >= from) by += m[name];
  return { by, over: (ends - from) / 1000 };
}

function tiles(state) {
  const s = state.sums;
  const rate = since("decisions", 10);
  const perSecond = rate.by / rate.over;
  const recent = (name) => since(name, 60).by;
  const timed = recent("timed") > 0 ? recent : (name) => s[name];
  const rows = [
    {
      name: "Decisions", value: perSecond < 10 ? perSecond.toFixed(1) + "/s" : number(perSecond) + "/s",
      more: brief(s.decisions) + " in all" + (s.toProviders ? `, ${brief(s.toProviders)} to providers` : ""),
      spark: (m, over) => m.decisions / over,
    },
    {
      name: "In flight", value: number(state.router.inFlight),
      more: state.router.maxWaiting ? number(state.router.waiting) + " waiting of " + brief(state.router.maxWaiting) : "no queue in the router",
    },
    {
      name: "Prompt tokens cached", value: percent(s.cachedTokens, s.promptTokens), bar: s.promptTokens ? s.cachedTokens / s.promptTokens : 0,
      more: s.reportedPrompt ? "engines reported " + percent(s.reportedCached, s.reportedPrompt) : "engines report none",
    },
    {
      name: "Cache known exactly", value: percent(s.exact, s.toWorkers), bar: s.toWorkers ? s.exact / s.toWorkers : 0,
      more: s.toWorkers ? `of ${brief(s.toWorkers)} decisions for workers` : "no decision for a worker yet",
    },
    {
      name: "Time to first token", value: timed("timed") ? time(timed("timedTtftMs") / timed("timed")) : "–",
      more: timed("timed") ? "predicted " + time(timed("timedPredictedMs") / timed("timed")) + range() : "none measured yet",
      spark: mean,
    },
    {
      name: "Turned away", value: brief(s.rejections), warn: recent("rejections") > 0,
      more: brief(s.failed) + " failed, " + brief(s.canceled) + " canceled",
    },
  ];
  list($("tiles"), state.recorded ? rows : rows.slice(1, 2), (r) => r.name, (r) => h("div", { class: "tile" },
    h("dt", {}, r.name),
    h("dd", { class: "value", "data-is": "value" }),
    h("dd", { class: "more", "data-is": "more" }),
    r.bar !== undefined ? h("dd", { class: "meter", "aria-hidden": "true", "data-is": "bar" }) : "",
    r.spark ? h("dd", { class: "spark", "aria-hidden": "true", "data-is": "spark" }) : "",
  ), (el, r) => {
    const m = marked(el);
    text(m.value, r.value);
    text(m.more, r.more);
    attribute(el, "data-warn", r.warn);
    if (m.bar) part(m.bar, r.bar);
    if (m.spark) spark(m.spark, r.spark);
  });
}

const mean = (m) => (m.timed ? m.timedTtftMs / m.timed : 0);

// range says between what the time to first token was, as the bars show it.
function range() {
  const all = [...world.moments.values()].filter((m) => m.timed).map(mean);
  return all.length > 1 ? `; ${time(Math.min(...all))} to ${time(Math.max(...all))} in 5 min` : "";
}

// spark draws the last five minutes, a bar for each moment.
function spark(el, value) {
  const ends = world.latest.at;
  const last = Math.floor(ends / (step * 1000)) * step * 1000;
  const bars = [];
  for (let at = last - (span - step) * 1000; at <= last; at += step * 1000) {
    const m = world.moments.get(at);
    bars.push({ at, v: m ? value(m, Math.max(1, Math.min(step, (ends - at) / 1000))) : 0 });
  }
  const most = Math.max(...bars.map((b) => b.v)) || 1;
  list(el, bars, (b) => b.at, () => h("i"), (bar, b) => {
    part(bar, b.v / most);
    attribute(bar, "data-none", b.v === 0);
  });
}

function show() {
  const wanted = location.hash.slice(2);
  if (!Object.hasOwn(views, wanted) && location.hash) return;
  view = wanted || "fleet";
  document.body.dataset.view = view;
  for (const name of Object.keys(views)) $("view-" + name).hidden = name !== view;
  for (const a of document.querySelectorAll("nav a")) {
    const here = a.hash === "#/" + view;
    attribute(a, "aria-current", here ? "page" : null);
    if (here) a.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  render();
}

// The pill says how it stands with the connection, and how old what is shown is. To pause
// changes nothing of that.
let link = { state: "wait", words: "Connecting" };
let heard = 0; // when something came last, on the page's own clock
let every = 1000;

function connection(state, words) {
  if (link.state !== state && state !== "live") announce(words + ".");
  link = { state, words };
  pill();
}

function pill() {
  const age = heard ? Math.floor((performance.now() - heard) / 1000) : 0;
  const words = link.state === "lost" && heard ? `${link.words}, ${time(age * 1000)} old` : link.words;
  attribute($("connection"), "data-state", paused && link.state !== "lost" ? "paused" : link.state);
  text($("connection"), paused ? "Paused · " + words : words);
}

// A connection may be dead without an error, or a router may hang: what does not come tells.
setInterval(() => {
  const silent = performance.now() - heard;
  const allowed = Math.max(5000, 3 * every) + (link.state === "slow" ? 5000 : 0);
  if (heard && silent > allowed && link.state !== "lost") connection("lost", "No data");
  if (heard && silent > 3 * allowed && stream && stream.readyState !== EventSource.CLOSED) {
    stream.close(); // it may never say that it is dead
    again(ask, 0);
  }
  pill();
}, 1000);

let poll = 0;
function again(what, ms) {
  clearTimeout(poll);
  poll = setTimeout(what, ms);
}

// Live by a stream; where there is none to be had, by asking.
let stream = null;
function listen() {
  stream = new EventSource("events");
  stream.addEventListener("state", (e) => {
    connection("live", "Live");
    take(JSON.parse(e.data));
  });
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED) {
      again(ask, 1000);
      connection("lost", "No stream");
    } else connection("lost", "Reconnecting");
  };
}

let asked = 0;
async function ask() {
  try {
    const answer = await fetch("state.json", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(String(answer.status));
    take(await answer.json());
    connection("slow", "Every 5 s");
  } catch {
    connection("lost", "No connection");
  }
  asked++;
  again(asked % 6 === 0 ? listen : ask, 5000);
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  attribute($("pause"), "aria-pressed", paused);
  text($("pause"), paused ? "Resume" : "Pause");
  pill();
  if (!paused) render();
});
$("skip").addEventListener("click", (e) => {
  e.preventDefault();
  $("main").focus();
});
$("decisions-filters").addEventListener("submit", (e) => e.preventDefault());
for (const id of ["decisions-kind", "decisions-find"]) $(id).addEventListener("input", () => render());
addEventListener("hashchange", () => {
  show();
  announce(titles[view] + ".");
});
show();
listen();
