// Draws the queue, the hand-overs, the changes and the detail view. Texts from the server become text nodes, never HTML.

import { ask, state } from "./state.js";

const $ = (id) => document.getElementById(id);
const FIRST = 60;
const shown = { which: "waiting", door: "", most: FIRST };

export const text = (value) => document.createTextNode(value ?? "");
export const fill = (parent, ...children) => parent.replaceChildren(...children.filter((child) => child != null));

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) if (value !== undefined) made[key] = value;
  made.append(...children.filter((child) => child != null && child !== ""));
  return made;
}

export const matches = (query, ...values) => !query || values.flat().some((value) => String(value ?? "").toLowerCase().includes(query));

const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const clock = (at) => (Number.isNaN(Date.parse(at)) ? "" : CLOCK.format(new Date(at)));

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60 ? `${s % 60} s` : ""}`.trim();
  return s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min` : `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// Makes an element that shows how long ago a time was; page.js refreshes it every few seconds.
export function ago(at, before = "") {
  if (!at || Number.isNaN(Date.parse(at))) return null;
  const made = element("time", { dateTime: at, title: at });
  made.dataset.before = before;
  return refresh(made);
}

export function refresh(made) {
  const seconds = (Date.now() - Date.parse(made.dateTime)) / 1000;
  made.textContent = seconds < 0 ? `in ${span(-seconds)}` : `${made.dataset.before}${span(seconds)}`;
  return made;
}

const cells = (row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell ?? "")));

// Fills `parent` with a table. `rows`: lists of cells, or finished <tr> elements.
export function table(parent, caption, titles, rows, foot) {
  const head = element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));
  const body = rows.map((row) => (Array.isArray(row) ? cells(row) : row));
  const made = element("table", {}, element("caption", { className: "hidden" }, caption), element("thead", {}, head), element("tbody", {}, ...body));
  fill(parent, rows.length ? made : element("p", { className: "none" }, "Nothing."), foot);
}

// Keeps the <tr> elements of rows that have not changed.
let lines = new Map();
function keepLines(rows, make) {
  const kept = new Map();
  for (const [key, row] of rows) {
    const known = lines.get(key);
    kept.set(key, known?.row === row ? known : { row, line: cells(make(key, row)) });
  }
  lines = kept;
  return [...kept.values()].map(({ line }) => line);
}

const plural = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
const toPod = (name) => `#pod/${name.split("/").map(encodeURIComponent).join("/")}`;
const pod = (name) => (name && name !== "a pod" && /^[^/]+\/\S+$/.test(name) ? element("a", { href: toPod(name) }, name) : text(name));
const job = (id) => (id ? element("a", { href: `#job/${id}` }, String(id)) : null);
const node = (name) => element("a", { href: `#node/${encodeURIComponent(name)}` }, name);
const size = (row) => [row.nodes && plural(row.nodeCount ?? row.nodes, "node"), row.gpus && plural(row.gpus, "GPU")].filter(Boolean).join(", ");

function more(count) {
  if (count <= shown.most) return null;
  const button = element("button", { type: "button", className: "more" }, `${count - shown.most} more are not shown: show ${Math.min(400, count - shown.most)} of them`);
  button.addEventListener("click", () => { shown.most += 400; drawJobs(shown.query); });
  return button;
}

export function drawJobs(query) {
  shown.query = query;
  for (const button of $("which").children) button.querySelector("b").textContent = state.tables[button.dataset.which].size;
  const isOf = (door) => !shown.door || shown.door === door;
  if (shown.which === "waiting") {
    const found = [];
    let place = 0;
    for (const [key, row] of state.tables.waiting) {
      place += 1;
      if (isOf(row.door) && matches(query, key, row.name, row.user, row.account, row.partition, row.waitsFor, row.slurmReason)) found.push([key, row, row.place || (row.job ? place : 0)]);
    }
    const first = found.slice(0, shown.most);
    const rows = keepLines(first, (key, row) => [
      "", door(row.door), job(row.job), row.door === "Kubernetes" ? pod(row.name) : row.name, row.user,
      row.partition, size(row), ago(row.since), ago(row.starts), why(row),
    ]);
    rows.forEach((line, at) => { line.firstChild.textContent = first[at][2] || "–"; });
    table($("jobs"), "What waits, in Slurm's order", ["#", "Door", "Job", "Name", "User", "Partition", "Size", "Waits", "Starts", "Why"], rows, more(found.length));
    return;
  }
  const found = [...state.tables.running].filter(([key, row]) => isOf(row.pods ? "Kubernetes" : "Slurm") && matches(query, key, row.name, row.user, row.account, row.partition, row.nodes));
  const rows = keepLines(found.slice(0, shown.most), (key, row) => [
    door(row.pods ? "Kubernetes" : "Slurm"), job(key), row.pods ? pod(row.name) : row.name, row.user, row.account, row.partition,
    size(row), row.nodes, ago(row.since), row.isEnding ? "ends" : "",
  ]);
  table($("jobs"), "What runs", ["Door", "Job", "Name", "User", "Account", "Partition", "Has", "Nodes", "Since", ""], rows, more(found.length));
}

const door = (name) => element("span", { className: `door ${name}`, title: name === "Slurm" ? "a job" : "pods" }, name === "Slurm" ? "job" : "pods");

function why(row) {
  const said = element("span", { className: row.neverStarts ? "never" : "" }, row.waitsFor);
  if (row.slurmReason) said.title = row.slurmReason;
  return said;
}

export function drawHandovers(query) {
  const rows = [...state.tables.handovers].filter(([, row]) => matches(query, row.pod, row.job, row.by, row.cause, row.user));
  fill($("handovers"), ...rows.slice(0, 30).map(([, row]) => element("li", { className: row.isOpen ? "open" : "" },
    element("span", { className: "at", title: row.at }, clock(row.at)),
    element("span", {}, row.pod ? pod(row.pod) : text(`job of ${row.user || "somebody"}`), row.job ? " (job " : "", job(row.job), row.job ? ")" : "", ` ${row.cause || "lost its node"}`,
      row.by ? " by " : "", row.byJob ? element("a", { href: `#job/${row.byJob}` }, row.by.replace("Slurm job", "job")) : text(row.by)),
    element("span", { className: "took" }, row.isOpen ? ago(row.at) : row.tookS === undefined ? "" : span(row.tookS)))));
  if (!rows.length) fill($("handovers"), element("li", { className: "none" }, "Nobody lost a node."));
  drawStrip(rows);
}

const WIDE = 400;
// Draws the last hour from left to right; each hand-over is a bar from the loss of the node to the next start.
function drawStrip(rows) {
  const svg = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const now = Date.now(), x = (ms) => WIDE - ((now - ms) / 3_600_000) * WIDE, lanes = [];
  const bars = [];
  for (const [, row] of [...rows].reverse()) {
    const from = x(Date.parse(row.at)), till = row.isOpen ? WIDE : Math.max(from + 4, x(Date.parse(row.at) + (row.tookS || 0) * 1000));
    if (!(till > 0)) continue;
    let lane = lanes.findIndex((end) => end < from - 2);
    if (lane < 0) lane = lanes.length < 6 ? lanes.length : 5;
    lanes[lane] = till;
    const said = svg("title", {}, text(`${clock(row.at)} ${row.pod || `job ${row.job}`} ${row.cause || ""} ${row.by ? `by ${row.by}` : ""}`));
    bars.push(svg("rect", { x: Math.max(0, from), y: 4 + lane * 8, width: till - Math.max(0, from), height: 6, rx: 2, class: row.isOpen ? "open" : "" }, said));
  }
  const ticks = [0, 15, 30, 45].map((minutes) => svg("text", { x: WIDE - (minutes / 60) * WIDE, y: 64, "text-anchor": "end" }, text(minutes ? `${minutes} min ago` : "now")));
  const made = svg("svg", { viewBox: `0 0 ${WIDE} 68`, role: "img", "aria-label": `${plural(bars.length, "hand-over")} in the last hour; the list below names each` }, ...bars, ...ticks);
  fill($("strip"), bars.length ? made : null);
}

export function drawChanges(query) {
  const rows = [...state.tables.changes].filter(([, row]) => matches(query, row.name, row.namespace, row.what, row.text));
  fill($("changes"), ...rows.slice(0, 60).map(([, row]) => element("li", { className: row.isWarning ? "warning" : "" },
    element("span", { className: "at", title: row.at }, clock(row.at)),
    element("span", {}, row.kind === "Node" ? node(row.name) : row.namespace ? pod(`${row.namespace}/${row.name}`) : text(row.kind ? `${row.kind} ${row.name}` : row.name),
      " ", element("b", {}, row.what), row.times > 1 ? ` ×${row.times}` : "", row.text ? `: ${row.text}` : ""))));
  if (!rows.length) fill($("changes"), element("li", { className: "none" }, "Nothing."));
}

export function setUpJobs() {
  for (const [id, field] of [["which", "which"], ["door", "door"]]) {
    $(id).addEventListener("click", ({ target }) => {
      const pressed = target.closest("button");
      if (!pressed) return;
      for (const button of $(id).children) button.setAttribute("aria-pressed", String(button === pressed));
      shown[field] = pressed.dataset[field];
      shown.most = FIRST;
      drawJobs(shown.query);
    });
  }
}

// ------------------------------------------------------------------------------------------------------- one thing

function explanation(each) {
  const lines = each.lines.filter((line) => line.texts.length).flatMap((line) => [element("dt", {}, line.title), ...line.texts.map((said) => element("dd", {}, said))]);
  return element("article", {}, element("h3", {}, `${each.subject} ${each.standing}`), element("dl", {}, ...lines),
    element("p", { className: "todo" }, element("b", {}, "What to do: "), each.whatToDo));
}

function past(history) {
  if (!history) return null;
  const items = [...history.happenings].reverse().map((each) => element("li", {}, element("span", { className: "at", title: each.at }, each.at.slice(5, 16).replace("T", " ")),
    element("span", {}, element("b", {}, each.what), each.times > 1 ? ` ×${each.times}` : "", each.text ? `: ${each.text}` : "", each.by ? ` (${each.by})` : "")));
  return element("article", {}, element("h3", {}, "What is known of its past"), element("ol", { className: "list" }, ...items),
    ...history.unknown.map((said) => element("p", { className: "small" }, said)));
}

export function dashboard(name, variable, value) {
  if (!state.dashboards) return null;
  const at = state.dashboards.lastIndexOf("/") + 1;
  const uid = (state.dashboards.slice(at) + name).slice(0, 40);
  const query = variable ? `?${new URLSearchParams({ [`var-${variable}`]: value })}` : "";
  return element("a", { href: `${state.dashboards.slice(0, at)}${uid}${query}`, target: "_blank", rel: "noopener" }, "In Grafana");
}

function facts(kind, name) {
  const row = kind === "node" ? state.tables.nodes.get(name) : undefined;
  if (!row) return null;
  const lines = [["Slurm node", row.slurmNode], ["NodeSet", row.nodeset], ["Slurm", row.slurm], ["Kubernetes", row.kubernetes],
    ["GPUs", row.gpus ? `${row.given ?? "?"} of ${row.gpus} in use` : ""]].filter(([, value]) => value).flatMap(([title, value]) => [element("dt", {}, title), element("dd", {}, value)]);
  const on = [...(row.jobs || []).map((id) => element("li", {}, "job ", job(id))), ...(row.pods || []).map((name) => element("li", {}, pod(name)))];
  return element("article", {}, element("dl", {}, ...lines), on.length ? element("h3", {}, "On it") : null, element("ul", { className: "on" }, ...on));
}

export async function drawDetail([kind, ...names]) {
  const name = names.join("/");
  $("detail-title").textContent = `${kind} ${name}`;
  const known = facts(kind, name);
  const link = kind === "node" ? dashboard("nodes", "node", state.tables.nodes.get(name)?.slurmNode) : kind === "job" ? dashboard("job", "slurmjob", name) : null;
  fill($("story"), link, known, element("p", { className: "none" }, "Asking…"));
  try {
    const said = await (await ask(`/api/explain/${kind}/${names.map(encodeURIComponent).join("/")}`)).json();
    if ($("detail-title").textContent === `${kind} ${name}`) fill($("story"), link, known, ...(said.explanations || []).map(explanation), past(said.history));
  } catch (error) {
    fill($("story"), link, known, element("p", { className: "none" }, error.message));
  }
}
