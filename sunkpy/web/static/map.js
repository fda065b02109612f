// Draws the nodes of the pool as a map of tiles, or as a table.

import { state } from "./state.js";
import { element, fill, matches, table, text } from "./views.js";

export const JOINTS = {
  free: "free",
  jobs: "running jobs",
  pods: "running pods",
  both: "running jobs and pods",
  draining: "draining",
  drained: "drained",
  down: "down",
};

const tiles = new Map();
const wanted = new Set();
const $ = (id) => document.getElementById(id);

export function isWanted(name, row, query) {
  return (!wanted.size || wanted.has(row.joint)) && matches(query, name, row.slurmNode, row.nodeset, row.slurm, row.pods, row.jobs);
}

export function describe(name, row) {
  const parts = [`${name}${row.slurmNode && row.slurmNode !== name ? ` (${row.slurmNode})` : ""}: ${JOINTS[row.joint]}`];
  parts.push(`Slurm ${row.slurm}`, `Kubernetes ${row.kubernetes || "has no such node"}`);
  if (row.gpus) parts.push(`${row.given ?? "?"} of ${row.gpus} GPUs in use`);
  if (row.jobs?.length) parts.push(`${row.jobs.length} jobs`);
  if (row.pods?.length) parts.push(`${row.pods.length} pods`);
  for (const hold of row.holds || []) parts.push(`held by ${hold.door}: ${hold.reason}`);
  return parts.join("\n");
}

function paint(tile, name, row) {
  const said = describe(name, row);
  tile.className = `tile ${row.joint}${row.isClosed ? " closed" : ""}`;
  tile.title = said;
  tile.setAttribute("aria-label", said.replaceAll("\n", ", "));
  tile.style.setProperty("--given", row.gpus ? `${Math.round((100 * (row.given || 0)) / row.gpus)}%` : "100%");
}

function groupOf(row) {
  const id = `set-${row.nodeset || "none"}`;
  let group = document.getElementById(id);
  if (!group) {
    const title = element("h3", {}, row.nodeset || "without slurmd");
    group = element("div", { id, className: "tiles", role: "list" });
    $("map").append(element("div", { className: "group" }, title, group));
  }
  return group;
}

export function drawMap(changed, whole, query) {
  const nodes = state.tables.nodes;
  if (whole) {
    tiles.clear();
    fill($("map"));
    const size = nodes.size <= 48 ? "large" : nodes.size <= 240 ? "middle" : "small";
    $("map").dataset.size = size;
  }
  for (const name of whole ? nodes.keys() : changed.nodes || []) {
    const row = nodes.get(name);
    let tile = tiles.get(name);
    if (!row) {
      tile?.parentElement.remove();
      tiles.delete(name);
      continue;
    }
    if (!tile) {
      tile = element("a", { href: `#node/${encodeURIComponent(name)}`, tabIndex: tiles.size ? -1 : 0 }, text(name));
      tiles.set(name, tile);
      groupOf(row).append(element("span", { role: "listitem" }, tile));
    }
    paint(tile, name, row);
  }
  if (whole || changed.nodes) drawLegend();
  if (!$("nodes").hidden && (whole || changed.nodes)) drawTable(query);
}

export function dim(query) {
  for (const [name, row] of state.tables.nodes) tiles.get(name)?.classList.toggle("dim", !isWanted(name, row, query));
  if (!$("nodes").hidden) drawTable(query);
}

function drawLegend() {
  const counts = {};
  for (const row of state.tables.nodes.values()) counts[row.joint] = (counts[row.joint] || 0) + 1;
  const chips = Object.keys(JOINTS).filter((joint) => counts[joint] || wanted.has(joint)).map((joint) => {
    const chip = element("button", { type: "button", className: "chip", ariaPressed: String(wanted.has(joint)) },
      element("i", { className: `tile ${joint}`, ariaHidden: "true" }), `${JOINTS[joint]} `, element("b", {}, String(counts[joint] || 0)));
    chip.dataset.joint = joint;
    return chip;
  });
  const focused = document.activeElement?.dataset?.joint;
  fill($("legend"), ...chips);
  if (focused) chips.find((chip) => chip.dataset.joint === focused)?.focus();
}

export function drawTable(query) {
  const titles = ["Node", "Slurm node", "NodeSet", "State", "Kubernetes", "Slurm", "GPUs in use", "Jobs", "Pods", "Held by"];
  const rows = [...state.tables.nodes].filter(([name, row]) => isWanted(name, row, query)).map(([name, row]) => [
    element("a", { href: `#node/${encodeURIComponent(name)}` }, name), row.slurmNode, row.nodeset,
    element("span", {}, element("i", { className: `tile ${row.joint}`, ariaHidden: "true" }), ` ${JOINTS[row.joint]}`),
    row.kubernetes, row.slurm, row.gpus ? `${row.given ?? "?"} of ${row.gpus}` : "",
    (row.jobs || []).join(", "), (row.pods || []).join(", "), (row.holds || []).map((hold) => `${hold.door}: ${hold.reason}`).join("; "),
  ]);
  table($("nodes"), "Nodes", titles, rows);
}

export function setUpMap(redraw) {
  $("legend").addEventListener("click", ({ target }) => {
    const joint = target.closest("button")?.dataset.joint;
    if (!joint) return;
    wanted.has(joint) ? wanted.delete(joint) : wanted.add(joint);
    drawLegend();
    redraw();
  });
  $("as-table").addEventListener("click", ({ currentTarget }) => {
    const is = $("nodes").hidden;
    currentTarget.setAttribute("aria-pressed", String(is));
    $("nodes").hidden = !is;
    $("map").hidden = is;
    redraw();
  });
  // The Tab key stops once at the map; inside it, arrow keys go from node to node.
  $("map").addEventListener("keydown", (event) => {
    const all = [...$("map").querySelectorAll("a")], at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const top = all[at].offsetTop, left = all[at].offsetLeft;
    const inRow = (way) => all.slice(way > 0 ? at + 1 : 0, way > 0 ? undefined : at).filter((a) => (a.offsetTop - top) * way > 0);
    const near = (found, way) => {
      const row = found.length && found[way > 0 ? 0 : found.length - 1].offsetTop;
      return found.filter((a) => a.offsetTop === row).sort((a, b) => Math.abs(a.offsetLeft - left) - Math.abs(b.offsetLeft - left))[0];
    };
    const next = { ArrowRight: () => all[at + 1], ArrowLeft: () => all[at - 1], Home: () => all[0], End: () => all.at(-1),
      ArrowDown: () => near(inRow(1), 1), ArrowUp: () => near(inRow(-1), -1) }[event.key]?.();
    if (!next) return;
    event.preventDefault();
    all[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
