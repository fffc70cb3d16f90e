// Which hot prefixes lie where: a table, whose cells say in figures what their colour says.
import { $, attribute, brief, bytes, h, list, marked, number, part, plural, text } from "./dom.js";

let table = null;
let shape = "";

export function heat(world) {
  const p = world.latest.prefixes;
  const rows = p.rows;
  text($("heat-lead"), rows.length
    ? `The ${plural(rows.length, "prefix", "prefixes")} that spared most work lately, and how much of each a worker holds from its start on.` +
      (p.omitted ? ` ${plural(p.omitted, "more worker")} hold some, too.` : "")
    : "No prefix has been found in a cache since the console was opened. They appear as prompts come that begin alike.");
  $("heat-scroll").hidden = $("heat-legend").hidden = rows.length === 0;
  if (!rows.length) return;
  text($("heat-legend"), "Prefixes are named by a hash that means nothing elsewhere. A cell is the part of the prefix that is held, in percent; “–” is none. Lookups of a minute ago count for half. " +
    `The index knows ${brief(world.latest.router.blocks)} blocks in ${bytes(world.latest.router.indexBytes)} of at most ${bytes(world.latest.router.indexBudget)}.`);
  const now = JSON.stringify(p.columns);
  if (now !== shape || !table) {
    shape = now;
    build(p.columns);
  }
  list(table.body, rows, (r) => r.id + " " + r.blocks, (r) => makeRow(r, p.columns), (el, r) => updateRow(el, r));
}

function build(columns) {
  const body = h("tbody");
  const el = h("table", { class: "heat" },
    h("caption", { class: "unseen" }, "Percentage of each prefix that each worker holds"),
    h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "Prefix"), h("th", { scope: "col", class: "figure" }, "Length"), h("th", { scope: "col", class: "figure" }, "Lookups"),
      ...columns.map((c) => h("th", { scope: "col", class: "column", title: c }, c)))),
    body);
  $("heat-scroll").replaceChildren(el);
  table = { body };
}

function makeRow(r, columns) {
  return h("tr", {},
    h("th", { scope: "row" }, h("code", {}, r.id)),
    h("td", { class: "figure", "data-is": "length" }), h("td", { class: "figure", "data-is": "lookups" }),
    ...columns.map((_, i) => h("td", { class: "cell", "data-is": "c" + i })));
}

function updateRow(el, r) {
  const m = marked(el);
  text(m.length, r.tokens ? brief(r.tokens) + " tokens" : plural(r.blocks, "block"));
  text(m.lookups, r.lookups < 10 ? r.lookups.toFixed(1) : number(r.lookups));
  r.held.forEach((blocks, i) => {
    const cell = m["c" + i];
    if (!cell) return;
    const held = blocks / r.blocks;
    text(cell, blocks === 0 ? "–" : held < 0.005 ? "<1" : String(Math.floor(100 * held)));
    attribute(cell, "data-hot", blocks === 0 ? null : held > 0.5 ? "much" : "some");
    part(cell, held);
  });
}
