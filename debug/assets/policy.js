// The policy in force, how often each rule decided, and what shadow policies would do.
import { $, badge, h, morph, number, percent, plural, rankName } from "./dom.js";

let drawn = "";

export function policy(world) {
  const { rules, shadows } = world.latest;
  const differing = [...world.decisions.values()].filter((d) => (d.shadows || []).some((s) => s.differs)).sort((a, b) => b.id - a.id).slice(0, 20);
  const now = JSON.stringify([world.policy, rules, shadows, differing.map((d) => d.id)]);
  if (now === drawn) return;
  drawn = now;
  morph($("policy-body"), h("div", {}, ...outline(world.policy, rules), ...shadow(world.policy, shadows, differing)));
}

function outline(p, rules) {
  if (!p) return [h("p", { class: "lead" }, "Not known yet.")];
  const counts = new Map(rules.map((r) => [(r.policy || "") + "\n" + r.rule, r]));
  const decided = (r) => (r ? `${number(r.count)} (${percent(r.count, total)})` + (r.refused ? `, ${number(r.refused)} turned away` : "") : "0");
  const total = rules.reduce((n, r) => n + r.count, 0);
  const out = [];
  if (!p.policies) {
    out.push(h("p", { class: "lead" }, "A policy written in Go decides: ", h("code", {}, p.kind), ". It does not say what it consists of; these are the rules that it has named."));
    return [...out, table("How often each rule decided", ["Rule", "Decided"], rules.map((r) => [r.rule, decided(r)]), [1])];
  }
  out.push(h("p", { class: "lead" }, `Version `, h("code", {}, p.version || "none"), `, ${plural(p.policies.length, "policy", "policies")}. They are asked in this order.`));
  const named = new Set();
  for (const one of p.policies) {
    const shadowed = one.mode.toLowerCase() === "shadow";
    const rows = (one.rules || []).map((r) => {
      named.add(one.name + "\n" + r.name);
      return [r.name, lines(r.matches, "always"), r.considers || "all", lines(r.exclusions, "nobody"), lines(r.stages, "all alike"), r.empty, shadowed ? "–" : decided(counts.get(one.name + "\n" + r.name))];
    });
    out.push(h("section", { class: "panel" },
      h("h3", {}, one.name, " ", badge(shadowed ? "shadow" : "enforce", shadowed ? "shadow" : "decides")),
      h("p", { class: "about" }, [`priority ${one.priority}`, one.pools && one.pools.length ? "pools " + one.pools.join(", ") : "all pools"].join(" · ")),
      table("Rules of " + one.name, ["Rule", "When", "Considers", "Of these leaves out", "Prefers", "If nobody is left", "Decided"], rows, [6]),
      one.omitted ? h("p", { class: "about" }, `${plural(one.omitted, "more rule")} are not shown.`) : ""));
  }
  const rest = rules.filter((r) => !named.has((r.policy || "") + "\n" + r.rule));
  if (rest.length) out.push(table("Decisions by other rules", ["Rule", "Decided"], rest.map((r) => [(r.policy ? r.policy + ": " : "") + r.rule, decided(r)]), [1]));
  return out;
}

function lines(list, none) {
  if (!list || !list.length) return none;
  return list.length === 1 ? list[0] : h("ul", {}, ...list.map((t) => h("li", {}, t)));
}

function shadow(p, shadows, differing) {
  const out = [h("h3", { class: "apart" }, "In shadow")];
  if (!shadows.length) {
    out.push(h("p", { class: "lead" }, "No policy in shadow mode has been asked."));
    return out;
  }
  out.push(table("How often shadow policies would have done something else", ["Policy", "Asked", "Would differ", "Share"],
    shadows.map((s) => [s.policy, number(s.asked), number(s.differs), percent(s.differs, s.asked)]), [1, 2, 3]));
  const rows = [];
  for (const d of differing) {
    const c = d.candidates[d.chosen];
    for (const s of d.shadows) if (s.differs) rows.push(["#" + d.id, c ? rankName(c.name, c.rank) : "nobody", d.rule, s.would || "reject", `${s.policy}: ${s.rule}`]);
  }
  if (rows.length) out.push(table("Latest differences", ["Decision", "Went to", "By", "Would have gone to", "By"], rows, []));
  return out;
}

// table makes a table that scrolls by itself where it is too wide, and whose rows are cards
// on a phone. Laid out so it would be no table for screen readers; hence the roles. figures
// are the columns of numbers.
export function table(caption, columns, rows, figures) {
  const figure = (i) => (figures.includes(i) ? "figure" : null);
  const cell = (value, i) => h(i === 0 ? "th" : "td", {
    scope: i === 0 ? "row" : null, role: i === 0 ? "rowheader" : "cell", class: figure(i), "data-label": columns[i],
  }, h("span", {}, value));
  return h("div", { class: columns.length < 5 ? "scroll narrow" : "scroll", role: "region", tabindex: "0", "aria-label": caption },
    h("table", { class: columns.length < 4 ? "plain" : "plain stacks", role: "table" }, h("caption", {}, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...columns.map((c, i) => h("th", { scope: "col", role: "columnheader", class: figure(i) }, c)))),
      h("tbody", { role: "rowgroup" }, ...rows.map((r) => h("tr", { role: "row" }, ...r.map(cell))))));
}
