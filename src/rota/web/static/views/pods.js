/** Pods: find them by text and selector, with the columns that kubectl prints. */
import { useMemo, useRef } from "preact/hooks";
import { Empty, Link, Status, Table, cores, duration, html, notReady, place, plural, podLink, setQuery, size, useNow, useView } from "../ui.js";

/** The columns of a row, as in `views/pods.py`. */
export const POD = { namespace: 0, name: 1, status: 2, ready: 3, restarts: 4, node: 5, created: 6, cpu: 7, memory: 8, gpus: 9, labels: 10, owner: 11, phase: 12, message: 13, priority: 14 };

/** How long a long list stands before it is filtered again: fifty thousand rows are not sorted with every change. */
const FILTER_MS = 400;

/**
 * A test from a filter's text: words are searched in name, node, owner and status; `a=b`, `a!=b` and `a` after `label:`
 * are label selectors.
 * @param {string} text @returns {(row: any[]) => boolean}
 */
export function filterOf(text) {
  const tests = text.toLowerCase().split(/[\s,]+/).filter(Boolean).map((word) => {
    const unequal = word.match(/^([^=!]+)!=(.*)$/);
    if (unequal) return (/** @type {any[]} */ row) => !`,${row[POD.labels]},`.toLowerCase().includes(`,${unequal[1]}=${unequal[2]},`);
    const equal = word.match(/^([^=]+)==?(.*)$/);
    if (equal) return (/** @type {any[]} */ row) => `,${row[POD.labels]},`.toLowerCase().includes(`,${equal[1]}=${equal[2]},`);
    return (/** @type {any[]} */ row) =>
      [POD.name, POD.namespace, POD.node, POD.owner, POD.status].some((at) => row[at].toLowerCase().includes(word));
  });
  return (row) => tests.every((test) => test(row));
}

export function Pods() {
  const { query } = place.value;
  const namespace = query.get("namespace") ?? "";
  const text = query.get("q") ?? "";
  const phase = query.get("phase") ?? "";
  const node = query.get("node") ?? "";
  const view = useView("pods", namespace);
  const now = useNow();
  const kept = useRef({ at: 0, rows: /** @type {any[]} */ ([]), key: "" });
  const key = [namespace, text, phase, node, view.status.value.state].join("\n");
  const stale = kept.current.key !== key || view.rows.size < 5000 || performance.now() - kept.current.at > FILTER_MS;
  if (stale) {
    const test = filterOf(text);
    const rows = [...view.rows.values()].filter((row) => (!phase || row[POD.phase] === phase) && (!node || row[POD.node] === node) && test(row));
    kept.current = { at: performance.now(), rows, key };
  }
  const { rows } = kept.current;
  const columns = useMemo(() => columnsAt(now, Boolean(namespace)), [now, namespace]);
  const other = notReady(view, "pods");
  return html`<h1>Pods</h1>
    <div class="row filters">
      <label>Filter <input data-filter type="search" value=${text} placeholder="text or app=web" title="/"
        onInput=${(/** @type {any} */ e) => setQuery({ q: e.target.value })} /></label>
      <label>Phase <select value=${phase} onChange=${(/** @type {any} */ e) => setQuery({ phase: e.target.value })}>
        <option value="">all</option>${["Pending", "Running", "Succeeded", "Failed"].map((one) => html`<option selected=${one === phase}>${one}</option>`)}</select></label>
      <label>Namespace <input value=${namespace} placeholder="all" onChange=${(/** @type {any} */ e) => setQuery({ namespace: e.target.value.trim() })} /></label>
      ${node && html`<button onClick=${() => setQuery({ node: "" })}>on ${node} ✕</button>`}
      <span class="muted" role="status">${other ? "" : plural(rows.length, "pod")}</span>
    </div>
    ${other ?? (rows.length === 0
      ? html`<${Empty} title=${view.rows.size ? "No pod matches" : "There are no pods"}>
          <p>${view.rows.size ? html`<button onClick=${() => setQuery({ q: "", phase: "", node: "" })}>Show all</button>` : html`Run one: <code>rota run -- echo hi</code>`}</p><//>`
      : html`<${Table} caption="Pods" columns=${columns} rows=${rows} keyOf=${(/** @type {any[]} */ row) => `${row[0]}/${row[1]}`}
          sort=${query.get("sort") ?? "name"} height=${Math.max(320, innerHeight - 210)} />`)}`;
}

/** @param {number} now @param {boolean} single */
function columnsAt(now, single) {
  const all = [
    { id: "namespace", name: "Namespace", cell: (/** @type {any[]} */ r) => r[POD.namespace], sort: (/** @type {any[]} */ r) => `${r[0]} ${r[1]}` },
    { id: "name", name: "Name", cell: (/** @type {any[]} */ r) => html`<${Link} to=${podLink(r[0], r[1])}>${r[POD.name]}<//>`, sort: (/** @type {any[]} */ r) => r[POD.name] },
    { id: "ready", name: "Ready", num: true, cell: (/** @type {any[]} */ r) => r[POD.ready] },
    { id: "status", name: "Status", cell: (/** @type {any[]} */ r) => html`<${Status} status=${r[POD.status]} />`, sort: (/** @type {any[]} */ r) => r[POD.status] },
    { id: "restarts", name: "Restarts", num: true, cell: (/** @type {any[]} */ r) => r[POD.restarts], sort: (/** @type {any[]} */ r) => r[POD.restarts] },
    { id: "age", name: "Age", num: true, cell: (/** @type {any[]} */ r) => duration(now - r[POD.created]), sort: (/** @type {any[]} */ r) => -r[POD.created] },
    { id: "node", name: "Node", cell: (/** @type {any[]} */ r) => r[POD.node] ? html`<${Link} to=${`nodes/${encodeURIComponent(r[POD.node])}`}>${r[POD.node]}<//>` : html`<${Link} to=${podLink(r[0], r[1], "why")}>why?<//>`, sort: (/** @type {any[]} */ r) => r[POD.node] },
    { id: "cpu", name: "CPU", num: true, cell: (/** @type {any[]} */ r) => cores(r[POD.cpu]), sort: (/** @type {any[]} */ r) => r[POD.cpu] },
    { id: "memory", name: "Memory", num: true, cell: (/** @type {any[]} */ r) => size(r[POD.memory]), sort: (/** @type {any[]} */ r) => r[POD.memory] },
    { id: "owner", name: "Owner", cell: (/** @type {any[]} */ r) => r[POD.owner], sort: (/** @type {any[]} */ r) => r[POD.owner] },
  ];
  return single ? all.slice(1) : all;
}
