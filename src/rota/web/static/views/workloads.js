/** Deployments, StatefulSets and DaemonSets: how many of their pods are ready, and scaling and restarting them. */
import { merge } from "../api.js";
import { Action, Empty, Link, Status, Table, duration, html, notReady, place, setQuery, useNow, useRight, useView } from "../ui.js";

const KINDS = /** @type {const} */ ([["Deployment", "deployments"], ["StatefulSet", "statefulsets"], ["DaemonSet", "daemonsets"]]);

export function Workloads() {
  const { query } = place.value;
  const namespace = query.get("namespace") ?? "";
  const now = useNow(5);
  // The number of views is fixed, as hooks need it.
  const views = [useView("deployments", namespace), useView("statefulsets", namespace), useView("daemonsets", namespace)];
  const other = views.map((view, at) => notReady(view, KINDS[at][1])).find(Boolean);
  const rows = views.flatMap((view, at) => [...view.rows.values()].map((object) => ({ kind: KINDS[at][0], plural: KINDS[at][1], object })));
  return html`<h1>Workloads</h1>
    <div class="row filters"><label>Namespace <input value=${namespace} placeholder="all" onChange=${(/** @type {any} */ e) => setQuery({ namespace: e.target.value.trim() })} /></label></div>
    ${other ?? (rows.length === 0 ? html`<${Empty} title="There are no workloads"><p><code>kubectl create deployment web --image=none -- sleep 1000</code></p><//>`
      : html`<${Table} caption="Workloads" rows=${rows} sort=${query.get("sort") ?? "name"} height=${Math.max(320, innerHeight - 210)} keyOf=${(/** @type {any} */ r) => r.object.metadata.uid} columns=${[
        { id: "kind", name: "Kind", cell: (/** @type {any} */ r) => r.kind, sort: (/** @type {any} */ r) => r.kind },
        { id: "name", name: "Name", cell: (/** @type {any} */ r) => html`<${Link} to=${podsOf(r.object)}>${r.object.metadata.namespace}/${r.object.metadata.name}<//>`, sort: (/** @type {any} */ r) => `${r.object.metadata.namespace}/${r.object.metadata.name}` },
        { id: "status", name: "Status", cell: (/** @type {any} */ r) => html`<${Status} status=${stateOf(r)} kind=${stateOf(r) === "Ready" ? "good" : "waits"} />`, sort: stateOf },
        { id: "ready", name: "Ready", num: true, cell: (/** @type {any} */ r) => `${readyOf(r)}/${wantedOf(r)}` },
        { id: "age", name: "Age", num: true, cell: (/** @type {any} */ r) => duration(now - Date.parse(r.object.metadata.creationTimestamp) / 1000), sort: (/** @type {any} */ r) => r.object.metadata.creationTimestamp },
        { id: "act", name: "", cell: (/** @type {any} */ r) => html`<${Actions} row=${r} />` },
      ]} />`)}`;
}

/** The pods of a workload, by its labels. @param {any} object */
function podsOf(object) {
  const labels = Object.entries(object.spec?.selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  return `pods?${new URLSearchParams({ namespace: object.metadata.namespace, q: labels.join(" ") })}`;
}

/** @param {any} row */
const wantedOf = (row) => (row.kind === "DaemonSet" ? row.object.status?.desiredNumberScheduled : row.object.spec?.replicas) ?? 0;
/** @param {any} row */
const readyOf = (row) => (row.kind === "DaemonSet" ? row.object.status?.numberReady : row.object.status?.readyReplicas) ?? 0;
/** @param {any} row */
const updatedOf = (row) => (row.kind === "DaemonSet" ? row.object.status?.updatedNumberScheduled : row.object.status?.updatedReplicas) ?? 0;
/** @param {any} row */
const stateOf = (row) => (row.object.spec?.paused ? "Paused" : readyOf(row) >= wantedOf(row) && updatedOf(row) >= wantedOf(row) ? "Ready" : "Rolling out");

/** @param {{row: any}} props */
function Actions({ row: { kind, plural, object } }) {
  const { namespace, name } = object.metadata;
  const mayScale = useRight("patch", `${plural}/scale`, namespace, "apps");
  const mayRestart = useRight("patch", plural, namespace, "apps");
  const path = `/apis/apps/v1/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}`;
  const restart = () => merge(path, { spec: { template: { metadata: { annotations: { "kubectl.kubernetes.io/restartedAt": new Date().toISOString() } } } } });
  return html`<div class="row">
    ${kind !== "DaemonSet" && mayScale && html`<${Action} label="Scale" question=${`How many pods should ${name} have? It has ${object.spec?.replicas ?? 1} now.`}
      field=${{ label: "Pods", value: String(object.spec?.replicas ?? 1), type: "number" }} act=${(/** @type {string} */ value) => merge(`${path}/scale`, { spec: { replicas: Number(value) } })} />`}
    ${mayRestart && html`<${Action} label="Restart" question=${`Replace all pods of ${name} step by step?`} act=${restart} />`}</div>`;
}
