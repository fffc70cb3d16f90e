// Whom the router turned away, who waits, and what an operator should have seen.
import { $, badge, clock, h, list, morph, number, plural, time } from "./dom.js";
import { table } from "./policy.js";

let drawn = "";

export function refusals(world) {
  const { router, codes, sums } = world.latest;
  const now = JSON.stringify([router.waiting, router.lingering, router.maxWaiting, codes, world.rejections]);
  if (now === drawn) return;
  drawn = now;
  const queue = router.maxWaiting
    ? `${plural(router.waiting, "request")} of at most ${number(router.maxWaiting)} wait in the router for a worker.`
    : "The router has no queue (WithQueue): requests wait in the engines.";
  const out = [h("p", { class: "lead" }, queue + (router.lingering ? ` ${plural(router.lingering, "request")} wait because a policy lets them.` : ""))];
  if (!codes.length) out.push(h("p", { class: "empty" }, "Nobody has been turned away."));
  else {
    out.push(table("By reason", ["Reason", "Requests"], codes.map((c) => [c.code, number(c.count)]), [1]));
    if (world.rejections.length) out.push(table("Latest", ["When", "Reason", "Model", "Tenant", "Rule", "What they were told", "Try again after", "Candidates"],
      world.rejections.map((r) => [clock(r.at), r.code, r.model, r.tenant || "–", r.rule || "–", r.message, r.retryAfterMs ? time(r.retryAfterMs) : "–",
        number(r.candidates) + (r.dropped ? ", dropped by " + r.dropped : "")]), []));
    out.push(h("p", { class: "lead" }, "Requests refused before workers were compared, such as for a model that nobody serves, are in the sums only."));
  }
  morph($("refusals-body"), h("div", {}, ...out));
}

const kinds = { look: ["warn", "look"], better: ["good", "better"], info: ["plain", "for information"] };

export function log(world) {
  $("log-empty").hidden = world.notes.length > 0;
  let nth = new Map();
  const notes = world.notes.map((n) => {
    const base = `${n.at} ${n.worker} ${n.text}`;
    nth.set(base, (nth.get(base) || 0) + 1);
    return { ...n, key: base + " " + nth.get(base) };
  });
  list($("log-list"), notes, (n) => n.key, (n) => h("li", {}, clock(n.at), " ", badge(...(kinds[n.kind] || kinds.info)), " ", n.worker ? h("strong", {}, n.worker) : "", " ", n.text), () => {});
}
