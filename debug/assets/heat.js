// Which hot prefixes lie where: a table, whose cells say in figures what their colour says.
import { $, attribute, badge, brief, bytes, h, list, marked, number, part, plural, setBadge, text } from "./dom.js";

let table = null;
let shape = "";

export function heat(world) {
  const p = world.latest.prefixes;
  const rows = p.rows;
  text($("heat-lead"), rows.length
    ? `The ${plural(rows.length, "beginning", "beginnings")} of prompts that spared most work lately, and how much of each a worker holds from its start on.` +
      (p.omitted ? ` ${plural(p.omitted, "more worker")} hold some, too.` : "")
    : "No prefix has been found in a cache since the console was opened. They appear as prompts come that begin alike.");
  $("heat-scroll").hidden = $("heat-legend").hidden = rows.length === 0;
  if (!rows.length) return;
  text($("heat-legend"), "Prefixes are named by a hash that means nothing elsewhere. A cell is the part of the prefix that is held; “–” is none. What is hatched and marked “≈” is expected and not confirmed by the engine; what is grey lies where no request can go. Requests of a minute ago count for half. " +
    `The index knows ${brief(world.latest.router.blocks)} blocks in ${bytes(world.latest.router.indexBytes)} of at most ${bytes(world.latest.router.indexBudget)}.`);
  const now = JSON.stringify(p.columns.map((c) => c.name));
  if (now !== shape || !table) {
    shape = now;
    build(p.columns);
  }
  p.columns.forEach((c, i) => head(table.heads[i], c));
  list(table.body, rows, (r) => r.id + " " + r.blocks, (r) => makeRow(r, p.columns), (el, r) => updateRow(el, r, p.columns));
}

function build(columns) {
  const body = h("tbody");
  const heads = columns.map((c) => h("th", { scope: "col", class: "column" }, h("span", {}, c.name), badge("blind")));
  const el = h("table", { class: "heat" },
    h("caption", { class: "unseen" }, "Percentage of each prefix that each worker holds"),
    h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "Prefix"), h("th", { scope: "col", class: "figure" }, "Length"), h("th", { scope: "col", class: "figure" }, "Requests"),
      ...heads)),
    body);
  $("heat-scroll").replaceChildren(el);
  table = { body, heads };
}

// head says how far what is known of a worker's cache can be counted on.
function head(el, c) {
  if (c.routable) setBadge(el.lastElementChild, c.trust, c.trust || "not known");
  else setBadge(el.lastElementChild, "out", c.health === "healthy" ? "draining" : c.health || "out");
  attribute(el, "data-out", !c.routable);
}

function makeRow(r, columns) {
  return h("tr", {},
    h("th", { scope: "row" }, h("code", {}, r.id)),
    h("td", { class: "figure", "data-is": "length" }), h("td", { class: "figure", "data-is": "lookups" }),
    ...columns.map((_, i) => h("td", { class: "cell", "data-is": "c" + i })));
}

function updateRow(el, r, columns) {
  const m = marked(el);
  text(m.length, r.tokens ? brief(r.tokens) + " tokens" : plural(r.blocks, "block"));
  text(m.lookups, r.lookups < 10 ? r.lookups.toFixed(1) : number(r.lookups));
  r.held.forEach((blocks, i) => {
    const cell = m["c" + i];
    if (!cell) return;
    const held = blocks / r.blocks;
    const guessed = blocks > r.confirmed[i];
    text(cell, blocks === 0 ? "–" : (guessed ? "≈ " : "") + (held < 0.01 ? "<1%" : Math.floor(100 * held) + "%"));
    attribute(cell, "data-guessed", guessed);
    attribute(cell, "data-out", !columns[i].routable);
    attribute(cell, "data-hot", blocks === 0 ? null : held > 0.5 ? "much" : "some");
    part(cell, held);
  });
}
