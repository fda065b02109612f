// The state of the page: the server's tables, as rows by key in the server's order, and the listeners for changes.

export const TABLES = ["head", "nodes", "waiting", "running", "handovers", "changes"];

export const state = {
  number: 0,
  at: 0,
  live: false,
  dashboards: "",
  tables: Object.fromEntries(TABLES.map((name) => [name, new Map()])),
};

const listeners = [];
let stream, fetching;

export const onChange = (listener) => listeners.push(listener);

// Calls the listeners. `changed`: table -> keys of changed rows; `whole`: all tables were replaced.
function tell(changed, whole = false) {
  for (const listener of listeners) listener(changed, whole);
}

function apply(name, change, changed) {
  const rows = state.tables[name];
  const keys = (changed[name] = new Set());
  for (const key of change.gone || []) keys.add(key), rows.delete(key);
  for (const [key, row] of change.set || []) keys.add(key), rows.set(key, row);
  if (change.order) {
    const ordered = new Map(change.order.map((key) => [key, rows.get(key)]));
    state.tables[name] = ordered;
  }
}

function update(told, whole) {
  performance.mark("told");
  if (whole) for (const name of TABLES) state.tables[name] = new Map();
  const changed = {};
  for (const [name, change] of Object.entries(told.tables)) apply(name, change, changed);
  state.number = told.number;
  state.at = told.at;
  tell(changed, whole);
  performance.measure(whole ? "whole" : "update", "told");
}

export async function ask(path, options) {
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({ why: `HTTP ${answer.status}` }));
  throw Object.assign(new Error(said.why), { status: answer.status });
}

export async function enter(token) {
  const headers = { "Content-Type": "application/json" };
  await ask("/session", { method: "POST", headers, body: JSON.stringify({ token }) });
}

export async function readPage() {
  fetching ||= (async () => {
    const answer = await ask("/api/page");
    state.dashboards = answer.headers.get("X-Dashboards") || "";
    update(await answer.json(), true);
  })().finally(() => (fetching = undefined));
  return fetching;
}

// Follows the stream of numbered updates. If one was missed or is too large, the whole page is read again.
export function follow(onRefused) {
  stream?.close();
  stream = new EventSource("/api/stream");
  const live = (is) => { state.live = is; tell({}); };
  stream.onopen = () => live(true);
  stream.onerror = () => {
    live(false);
    if (stream.readyState === EventSource.CLOSED) readPage().then(() => follow(onRefused), onRefused);
  };
  stream.onmessage = async ({ data }) => {
    const told = data === "again" ? { number: NaN } : JSON.parse(data);
    if (fetching) await fetching.catch(() => undefined);
    if (told.tables && told.number === state.number + 1) update(told, false);
    else if (!(told.number <= state.number)) readPage().catch(onRefused);
  };
}
