// The fleet as cards.
import { $, attribute, badge, brief, h, list, marked, number, part, percent, plural, setBadge, text, time } from "./dom.js";

const health = (w) => (w.draining ? "draining" : w.health);
const healthWords = { healthy: "Healthy", unhealthy: "Unhealthy", suspect: "Suspect", pending: "Not probed yet", draining: "Draining" };

export function fleet(world) {
  const state = world.latest;
  const f = state.fleet;
  text($("fleet-lead"), (f.workers === 0 ? "The fleet has no workers." : `${number(f.routable)} of ${plural(f.workers, "worker")} can take requests.`) +
    (f.omitted ? ` ${number(f.omitted)} more are not shown.` : "") + (f.problem ? " The list may be out of date: " + f.problem + "." : ""));
  const cards = state.workers.map((w) => ({ key: "w " + w.instance, worker: w }));
  for (const p of state.providers || []) cards.push({ key: "p " + p.name + " " + p.model, provider: p });
  list($("fleet-cards"), cards, (c) => c.key, make, update);
}

function make(c) {
  return h("li", { class: "card" },
    h("div", { class: "card-head" }, h("h3", { "data-is": "name" }), h("span", { "data-is": "health" }, badge("pending"))),
    h("p", { class: "about", "data-is": "about" }),
    h("p", { class: "alert", "data-is": "problem", hidden: true }),
    h("div", { class: "ranks", "data-is": "ranks" }),
    h("p", { class: "foot", "data-is": "foot" }),
  );
}

function update(el, c) {
  if (c.provider) return provider(el, c.provider);
  const w = c.worker;
  const m = marked(el);
  text(m.name, w.name);
  setBadge(m.health.firstElementChild, health(w), healthWords[health(w)]);
  attribute(el, "data-out", !w.routable);
  text(m.about, [w.engine, w.class, w.role && w.role + " only", w.pool && "pool " + w.pool, w.address].filter(Boolean).join(" · "));
  const problems = [w.problem, ...(w.remarks || [])].filter(Boolean).join(" · ");
  text(m.problem, problems);
  m.problem.hidden = !problems;
  list(m.ranks, w.ranks, (r) => r.rank, () => makeRank(), (e, r) => updateRank(e, r, w));
  text(m.foot, [
    w.models.join(", ") + (w.moreModels ? ` and ${w.moreModels} more` : ""),
    w.events ? plural(w.events, "event message") + (w.gaps ? `, ${number(w.gaps)} lost` : "") : "",
    w.moreRanks ? plural(w.moreRanks, "more rank") : "",
  ].filter(Boolean).join(" · "));
}

function makeRank() {
  return h("div", { class: "rank" },
    h("div", { class: "rank-head" },
      h("div", { class: "wait" }, h("strong", { "data-is": "wait" }), h("span", {}, " predicted wait")),
      h("span", { class: "which", "data-is": "which" })),
    h("dl", { class: "facts" },
      h("div", {}, h("dt", {}, "Load"), h("dd", { "data-is": "load" })),
      h("div", {}, h("dt", {}, "Cached"), h("dd", {}, h("span", { "data-is": "trust" }, badge("blind")), " ", h("span", { "data-is": "cache" }), h("span", { class: "meter", "aria-hidden": "true", "data-is": "fill" }), h("span", { class: "reason", "data-is": "reason", hidden: true }))),
      h("div", {}, h("dt", {}, "KV in use"), h("dd", {}, h("span", { "data-is": "usage" }), h("span", { class: "meter", "aria-hidden": "true", "data-is": "used" }))),
    ));
}

function updateRank(el, r, w) {
  const m = marked(el);
  // Who can't be chosen has no wait, and what he held may be gone.
  text(m.wait, w.routable && r.waitMs >= 0 ? time(r.waitMs) : "–");
  text(m.which, w.ranks.length > 1 ? "Rank " + r.rank : "");
  setBadge(m.trust.firstElementChild, w.routable ? r.trust : "out", w.routable ? r.trust : "was " + r.trust);
  text(m.reason, r.trustReason || "");
  m.reason.hidden = !r.trustReason;
  const ours = r.prefilling + r.decoding;
  let load = ours === 0 ? "idle" : `${number(ours)} in flight: ${number(r.prefilling)} before their first token, ${number(r.decoding)} after`;
  if (r.prefillTokens) load += `; ${brief(r.prefillTokens)} prompt tokens to compute`;
  if (r.othersRunning || r.othersWaiting) load += `; others ${number(r.othersRunning)} running, ${number(r.othersWaiting)} waiting`;
  if (!r.fresh) load += "; no recent report";
  text(m.load, load);
  // What is only expected may be more than there is room for: the engine has evicted some.
  // The figure is of what is known to be in GPU memory, if anything is.
  const known = r.blocks - r.booked;
  const fill = known && r.gpu ? (r.fill * (r.gpu - r.booked)) / r.gpu : r.fill;
  const full = r.fill < 0 ? "" : fill > 1 ? (known ? "more than the GPU holds, " : "") : percent(fill, 1) + " full, ";
  text(m.cache, full + (known || !r.booked ? plural(known, "block") + (r.blocks > r.gpu ? `, ${brief(r.blocks - r.gpu)} of them not on the GPU` : "") + (r.booked ? ` and ${brief(r.booked)} expected` : "") : plural(r.booked, "block") + " expected" + (fill > 1 ? ", more than fit" : "")));
  m.fill.hidden = r.fill < 0;
  part(m.fill, fill);
  text(m.usage, r.fresh ? percent(r.kvUsage, 1) : "unknown");
  m.used.hidden = !r.fresh;
  part(m.used, r.kvUsage);
}

function provider(el, p) {
  const m = marked(el);
  text(m.name, p.name);
  setBadge(m.health.firstElementChild, p.ready ? "good" : "warn", p.ready ? "Ready" : "Not now");
  attribute(el, "data-out", !p.ready);
  text(m.about, ["provider", p.kind, p.model, p.address].filter(Boolean).join(" · "));
  text(m.problem, (p.reason || "") + (p.retryMs ? ", again in " + time(p.retryMs) : ""));
  m.problem.hidden = p.ready;
  list(m.ranks, [p], () => 0, makeProvider, (e, x) => {
    const q = marked(e);
    text(q.wait, time(x.ttftMs));
    text(q.load, x.inFlight ? plural(x.inFlight, "request") + " in flight" : "idle");
    text(q.quota, x.quota >= 0 ? percent(x.quota, 1) + " left" : "none known");
    q.left.hidden = x.quota < 0;
    part(q.left, x.quota);
    text(q.breaker, x.breaker);
  });
  text(m.foot, `Chosen in ${number(p.chosen)} of the ${plural(p.considered, "listed decision")} that considered it`);
}

function makeProvider() {
  return h("div", { class: "rank" },
    h("div", { class: "wait" }, h("strong", { "data-is": "wait" }), h("span", {}, " expected to the first token of 1,000")),
    h("dl", { class: "facts" },
      h("div", {}, h("dt", {}, "Load"), h("dd", { "data-is": "load" })),
      h("div", {}, h("dt", {}, "Quota"), h("dd", {}, h("span", { "data-is": "quota" }), h("span", { class: "meter", "aria-hidden": "true", "data-is": "left" }))),
      h("div", {}, h("dt", {}, "Breaker"), h("dd", { "data-is": "breaker" }))));
}

// changes says in sentences what those who don't look should know. Of a fleet that is too
// big to be listed, not to be in the list says nothing but that a worker is well.
export function changes(before, after) {
  const was = new Map(before.workers.map((w) => [w.name, w]));
  const partly = before.fleet.omitted > 0 || after.fleet.omitted > 0;
  const out = [];
  const { workers, routable } = after.fleet;
  if (partly && (workers !== before.fleet.workers || routable !== before.fleet.routable)) {
    out.push(`${number(routable)} of ${plural(workers, "worker")} can take requests, before ${number(before.fleet.routable)} of ${number(before.fleet.workers)}.`);
  }
  for (const w of after.workers) {
    const b = was.get(w.name);
    was.delete(w.name);
    if (!b && !partly) out.push(`Worker ${w.name} is new.`);
    else if (!b) {
      if (!w.routable) out.push(`Worker ${w.name} is ${healthWords[health(w)].toLowerCase()}.`);
    } else if (health(b) !== health(w)) out.push(`Worker ${w.name} is ${healthWords[health(w)].toLowerCase()}.`);
    for (const r of w.ranks) {
      const old = b && b.instance === w.instance && b.ranks.find((x) => x.rank === r.rank);
      if (old && old.trust !== r.trust) out.push(`The cache of ${w.name} is ${r.trust}.`);
    }
  }
  if (!partly) for (const name of was.keys()) out.push(`Worker ${name} has left.`);
  const ready = new Map((before.providers || []).map((p) => [p.name + "\n" + p.model, p.ready]));
  for (const p of after.providers || []) {
    const then = ready.get(p.name + "\n" + p.model);
    if (then !== undefined && then !== p.ready) out.push(`Provider ${p.name} is ${p.ready ? "ready" : "not ready"} for ${p.model}.`);
  }
  return out;
}
