// Starts the page: signs the viewer in, follows the address and the search field, and redraws tables that have changed.

import { dim, drawMap, setUpMap } from "./map.js";
import { enter, follow, onChange, readPage, state } from "./state.js";
import { dashboard, drawChanges, drawDetail, drawHandovers, drawJobs, fill, element, refresh, setUpJobs, span } from "./views.js";

const $ = (id) => document.getElementById(id);
let query = "", downs;

const draw = {
  head() {
    const head = state.tables.head.get("") || {};
    $("headline").textContent = head.headline || "Slurm on Kubernetes";
    document.title = head.headline || "Slurm on Kubernetes";
    $("unread").hidden = !head.unread?.length;
    fill($("unread"), ...(head.unread || []).map((said) => element("p", {}, `Not read: ${said}`)));
  },
  waiting: () => drawJobs(query),
  running: () => drawJobs(query),
  handovers: () => drawHandovers(query),
  changes: () => drawChanges(query),
};

function redraw() {
  dim(query);
  drawJobs(query);
  drawHandovers(query);
  drawChanges(query);
}

function age() {
  const seconds = Date.now() / 1000 - state.at;
  $("live").dataset.live = state.live && seconds < 60 ? "yes" : "no";
  $("age").textContent = !state.at ? "connecting" : state.live ? `live, ${span(seconds)} old` : `not connected, ${span(seconds)} old`;
}

// Tells screen readers the important changes: a node that goes down, a hand-over that begins.
function announce(changed, whole) {
  const now = new Set([...state.tables.nodes].filter(([, row]) => row.joint === "down").map(([name]) => name));
  const fresh = whole ? [] : [...now].filter((name) => !downs?.has(name)).map((name) => `${name} is down`);
  downs = now;
  if (!whole) for (const key of changed.handovers || []) {
    const row = state.tables.handovers.get(key);
    if (row?.isOpen) fresh.push(`${row.pod || `job ${row.job}`} ${row.cause}`);
  }
  if (fresh.length) $("news").textContent = fresh.slice(0, 3).join("; ");
}

onChange((changed, whole) => {
  age();
  if (!Object.keys(changed).length) return;
  $("main").hidden = false;
  $("entry").hidden = true;
  drawMap(changed, whole, query);
  const tables = new Set(whole ? Object.keys(draw) : Object.keys(changed));
  if (tables.has("waiting")) tables.delete("running");
  for (const table of tables) draw[table]?.();
  if (query) dim(query);
  for (const name of ["pool", "line", "lately"]) $(name).hidden = whole ? !state.tables.nodes.size : $(name).hidden;
  announce(changed, whole);
  if (whole && !performance.getEntriesByName("shown").length) requestAnimationFrame(() => setTimeout(() => performance.mark("shown")));
});

function route() {
  const parts = location.hash.slice(1).split("/").map(decodeURIComponent);
  const is = ["node", "job", "pod"].includes(parts[0]) && parts[1];
  const was = !$("detail").hidden;
  $("detail").hidden = !is;
  document.body.classList.toggle("with-detail", Boolean(is));
  if (is) {
    drawDetail(parts);
    $("detail").focus({ preventScroll: true });
  } else if (was) $("main").focus({ preventScroll: true });
}

function refused(error) {
  if (error.status !== 401 && error.status !== 403) {
    $("age").textContent = error.message;
    setTimeout(start, 5000);
    return;
  }
  $("main").hidden = true;
  $("entry").hidden = false;
  $("refusal").textContent = document.cookie || error.status === 403 || start.tried ? error.message : "";
  $("token").focus();
}

async function start() {
  try {
    await readPage();
    const top = dashboard("pool");
    $("grafana").hidden = !top;
    if (top) $("grafana").href = top.href;
    follow(refused);
    if (location.hash.length > 1) route();
  } catch (error) {
    refused(error);
  }
}

$("entry").addEventListener("submit", async (event) => {
  event.preventDefault();
  start.tried = true;
  await enter($("token").value.trim()).then(start, refused);
  $("token").value = "";
});
$("search").addEventListener("input", ({ target }) => {
  query = target.value.trim().toLowerCase();
  requestAnimationFrame(redraw);
});
$("search").addEventListener("keydown", ({ key }) => {
  if (key !== "Enter" || !query) return;
  const name = [...state.tables.nodes].find(([name, row]) => [name, row.slurmNode].some((each) => each?.toLowerCase() === query))?.[0];
  if (name) location.hash = `#node/${encodeURIComponent(name)}`;
  else if (/^\d+$/.test(query)) location.hash = `#job/${query}`;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape") {
    if ($("search").value) { $("search").value = query = ""; redraw(); }
    else if (!$("detail").hidden) location.hash = "";
  }
});
addEventListener("hashchange", route);
setInterval(age, 1000);
setInterval(() => { if (!document.hidden) document.querySelectorAll("time").forEach(refresh); }, 5000);
setUpMap(redraw);
setUpJobs();

// Exchanges the key in the link for a cookie that no script can read, and removes the key from the address.
const [, key] = location.hash.match(/^#(?:key|slurm)=(.+)$/) || [];
if (key) {
  history.replaceState(null, "", "/");
  start.tried = true;
  enter(key).then(start, refused);
} else start();
