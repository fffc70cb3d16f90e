// The latest decisions, each with why it was taken and what came of it.
import { $, badge, brief, clock, h, list, marked, number, part, percent, plural, rankName, setBadge, text, time } from "./dom.js";

let held = null; // what is shown while somebody reads, by id
let known = []; // all of the latest look

// hold keeps the list as it is from the moment on that somebody begins to read: what is
// under the mouse must not move away, nor go when the router forgets it.
function hold() {
  if (!held) held = new Map(known.map((d) => [d.id, d]));
}
$("decisions-list").addEventListener("focusin", hold);
$("decisions-list").addEventListener("toggle", hold, true); // it does not bubble
const looks = new WeakMap();

export function decisions(world) {
  const s = world.latest.sums;
  const all = [...world.decisions.values()].sort((a, b) => b.id - a.id);
  text($("decisions-lead"), !world.latest.recorded
    ? "The router was made without this console's Recorder: pass it to WithHooks to see decisions."
    : `${number(s.decisions)} decisions so far, ${number(s.decisions - s.kept)} of which came too fast to be listed. ` +
      "Open one to see its candidates.");
  const list_ = $("decisions-list");
  // What moves can't be read: while one is unfolded or has the focus, new ones wait.
  const reading = list_.contains(document.activeElement) || list_.querySelector("details[open]");
  if (!reading) held = null;
  else hold();
  known = all;
  if (held) for (const d of all) if (held.has(d.id)) held.set(d.id, d); // it may have ended
  const fresh = held ? all.filter((d) => !held.has(d.id)).length : 0;
  const button = $("decisions-new");
  button.hidden = fresh === 0;
  text(button, `Show ${plural(fresh, "new one", "new ones")}`);
  button.onclick = () => {
    for (const e of list_.querySelectorAll("details[open]")) e.open = false;
    held = null;
    button.blur();
    decisions(world);
  };
  const shown = (held ? [...held.values()] : all).filter(wanted);
  list(list_, shown, (d) => d.id, make, update);
  $("decisions-empty").hidden = shown.length > 0 || !world.latest.recorded;
  text($("decisions-empty"), all.length ? "None of the latest decisions is like that." : "No decision yet.");
}

function wanted(d) {
  const kinds = {
    all: () => true,
    degraded: () => (d.degradations || []).length > 0,
    shadow: () => (d.shadows || []).some((s) => s.differs),
    failed: () => d.attempt > 1 || (d.end && d.end.failure),
    waited: () => d.waitedMs > 0,
  };
  if (!kinds[$("decisions-kind").value]()) return false;
  const words = $("decisions-find").value.trim().toLowerCase();
  if (!words) return true;
  const c = d.candidates[d.chosen];
  return [c ? rankName(c.name, c.rank) : "", d.model, c ? c.model : "", d.tenant || "", d.rule, d.policy || "", "#" + d.id].some((x) => x.toLowerCase().includes(words));
}

function make(d) {
  const fold = h("details", {},
    h("summary", {},
      h("span", { class: "id" }, "#" + d.id),
      h("span", { class: "when" }, clock(d.at)),
      h("span", { class: "to" }, h("span", { "aria-hidden": "true" }, "→ "), h("strong", { "data-is": "worker" })),
      h("span", { class: "model", "data-is": "model" }),
      h("span", { class: "cached" }, h("span", { "data-is": "cached" }), h("span", { class: "meter", "aria-hidden": "true", "data-is": "part" })),
      h("span", { class: "ttft", "data-is": "ttft" }),
      h("span", { class: "flags", "data-is": "flags" }),
    ),
    h("div", { class: "why", "data-is": "why" }));
  const el = h("li", {}, fold);
  fold.addEventListener("toggle", () => {
    if (fold.open) explain(marked(el).why, looks.get(el));
    else marked(el).why.replaceChildren();
  });
  return el;
}

function update(el, d) {
  if (looks.get(el) === d) return;
  looks.set(el, d);
  const m = marked(el);
  const c = d.candidates[d.chosen];
  text(m.worker, c ? rankName(c.name, c.rank) : "nobody");
  text(m.model, c && c.model !== d.model ? `${d.model} as ${c.model}` : d.model);
  text(m.cached, c ? `${percent(c.cachedTokens, d.promptTokens)} of ${brief(d.promptTokens)} cached` : "");
  part(m.part, c && d.promptTokens ? c.cachedTokens / d.promptTokens : 0);
  const got = d.end && d.end.ttftMs > 0 ? `, was ${time(d.end.ttftMs)}` : "";
  text(m.ttft, c ? `predicted ${time(c.ttftMs)}${got}` : "");
  list(m.flags, flags(d), (f) => f.words, (f) => badge(f.kind, f.words), (e, f) => setBadge(e, f.kind, f.words));
  if (el.firstElementChild.open) explain(m.why, d);
}

// farOff: more than three times too early or too late, and by more than anybody overlooks.
function farOff(d) {
  const c = d.candidates[d.chosen];
  const was = d.end && !d.end.moved ? d.end.ttftMs : 0;
  return c && was > 0 && Math.abs(was - c.ttftMs) > 50 && (was > 3 * c.ttftMs || c.ttftMs > 3 * was);
}

function flags(d) {
  const out = [];
  if (d.end && d.end.next) out.push({ kind: "warn", words: `failed, tried again as #${d.end.next}` });
  else if (d.end && d.end.failure) out.push({ kind: d.end.failure === "canceled" ? "plain" : "bad", words: d.end.failure });
  else if (!d.end) out.push({ kind: "pending", words: "under way" });
  if (d.attempt > 1) out.push({ kind: "warn", words: "attempt " + d.attempt });
  if (d.end && d.end.moved) out.push({ kind: "warn", words: "went to " + d.end.moved });
  if ((d.degradations || []).length) out.push({ kind: "approximate", words: "less than exact" });
  if ((d.shadows || []).some((s) => s.differs)) out.push({ kind: "shadow", words: "shadow differs" });
  if (d.waitedMs > 0) out.push({ kind: "pending", words: "waited " + time(d.waitedMs) });
  if (farOff(d)) out.push({ kind: "warn", words: "prediction far off" });
  if (d.missedTargets) out.push({ kind: "warn", words: "misses " + d.missedTargets });
  return out;
}

const fact = (name, value) => (value === "" || value === undefined ? "" : h("div", {}, h("dt", {}, name), h("dd", {}, value)));

function explain(el, d) {
  if (!d) return;
  const id = "why-" + d.id;
  const end = d.end;
  el.replaceChildren(
    h("dl", { class: "facts" },
      fact("Rule", (d.policy ? d.policy + ": " : "") + d.rule),
      fact("Policy version", d.policyVersion),
      fact("Request", [d.api, d.tenant && "tenant " + d.tenant, d.qos && "class " + d.qos, d.pool && "pool " + d.pool].filter(Boolean).join(" · ")),
      fact("Tags", (d.tags || []).map((t) => `${t.name} ${t.state}`).join(", ")),
      fact("Prompt", `${number(d.promptTokens)} tokens, known by ${d.tokenSource}`),
      fact("Prefill on", d.prefillOn),
      fact("Choosing took", time(d.tookMs) + (d.waitedMs ? `, after waiting ${time(d.waitedMs)}` : "") + (d.waiting ? `, ${plural(d.waiting, "other waited", "others waited")}` : "")),
      end && end.next ? fact("Outcome", `failed after ${time(end.tookMs)}, tried again as #${end.next}`)
        : end ? fact("Outcome", [
        end.failure || "done", end.ttftMs > 0 ? "first token after " + time(end.ttftMs) : "", "ended after " + time(end.tookMs),
        end.cachedTokens >= 0 ? `engine reported ${number(end.cachedTokens)} cached` : "cached tokens not reported", plural(end.outputTokens, "token") + " out",
      ].filter(Boolean).join(" · ")) : fact("Outcome", "under way"),
    ),
    (d.degradations || []).length ? h("ul", { class: "remarks" }, ...d.degradations.map((t) => h("li", {}, t))) : "",
    (d.shadows || []).length ? h("ul", { class: "remarks shadow" }, ...d.shadows.map((s) => h("li", {},
      `${s.policy} (shadow) would ${s.would ? "send it to " + s.would : "reject it"} by ${s.rule}${s.differs ? ", which differs" : ", as was done"}`))) : "",
    (d.unready || []).length ? h("ul", { class: "remarks" }, ...d.unready.map((t) => h("li", {}, "Not asked: " + t))) : "",
    h("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": id }, candidates(d, id)),
    h("details", { class: "words" }, h("summary", {}, "In words"), h("pre", {}, d.explanation)),
  );
}

function candidates(d, id) {
  const order = d.candidates.map((c, i) => ({ c, i })).sort((a, b) => (a.i === d.chosen ? -1 : b.i === d.chosen ? 1 : (a.c.place || 1e9) - (b.c.place || 1e9)));
  const columns = ["Place", "Worker", "Cached", "Trust", "In flight", "Prompt tokens ahead", "Predicted first token", "Cost to others", "Dropped by"];
  const dropped = d.candidates.some((c) => c.droppedBy);
  if (!dropped) columns.pop();
  return h("table", { class: "plain" },
    h("caption", { id }, `Candidates of decision ${d.id}` + (d.omitted ? `, ${plural(d.omitted, "other")} left out` : "")),
    h("thead", {}, h("tr", {}, ...columns.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", {}, ...order.map(({ c, i }) => h("tr", { class: i === d.chosen ? "chosen" : null },
      h("td", {}, i === d.chosen ? "chosen" : c.place ? String(c.place) : "–"),
      h("th", { scope: "row" }, rankName(c.name, c.rank) + (c.type.toLowerCase() === "provider" ? ` as ${c.model} (provider)` : "")),
      h("td", { class: "figure" }, number(c.cachedTokens)),
      h("td", {}, c.trust),
      h("td", { class: "figure" }, number(c.inFlight)),
      h("td", { class: "figure" }, number(c.aheadTokens)),
      h("td", { class: "figure" }, time(c.ttftMs)),
      h("td", { class: "figure" }, time(c.othersMs)),
      dropped ? h("td", {}, c.droppedBy || "") : ""))));
}
