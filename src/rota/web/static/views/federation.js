/** Federation: the clusters, and where each resource was placed. */
import { Empty, Status, Table, html, notReady, place, useView } from "../ui.js";

export function Federation() {
  const clusters = useView("clusters");
  const bindings = useView("bindings");
  const absent = clusters.status.value.state === "absent";
  if (absent)
    return html`<h1>Federation</h1><${Empty} title="This cluster is not the control plane of a federation">
      <p><code>rota federation up</code> starts one, and <code>rota federation join</code> adds clusters to it. Its dashboard shows clusters and placements here.</p><//>`;
  return html`<h1>Federation</h1>
    <section aria-label="Clusters"><h2>Clusters</h2>${notReady(clusters, "clusters") ?? (clusters.rows.size === 0 ? html`<${Empty} title="No cluster has joined"><p><code>rota federation join NAME --cluster-kubeconfig FILE</code></p><//>`
      : html`<${Table} caption="Clusters" height=${360} rows=${[...clusters.rows.values()]} keyOf=${(/** @type {any} */ r) => r.metadata.uid} columns=${[
        { id: "name", name: "Cluster", cell: (/** @type {any} */ r) => r.metadata.name },
        { id: "ready", name: "State", cell: (/** @type {any} */ r) => html`<${Status} status=${readiness(r)} />` },
        { id: "mode", name: "Mode", cell: (/** @type {any} */ r) => r.spec?.syncMode ?? "" },
        { id: "where", name: "Region", cell: (/** @type {any} */ r) => [r.spec?.provider, r.spec?.region, r.spec?.zone].filter(Boolean).join(" / ") },
        { id: "version", name: "Version", cell: (/** @type {any} */ r) => r.status?.kubernetesVersion ?? "" },
        { id: "nodes", name: "Nodes", num: true, cell: (/** @type {any} */ r) => `${r.status?.nodeSummary?.readyNum ?? 0}/${r.status?.nodeSummary?.totalNum ?? 0}` },
        { id: "taints", name: "Taints", wide: true, cell: (/** @type {any} */ r) => (r.spec?.taints ?? []).map((/** @type {any} */ t) => `${t.key}:${t.effect}`).join(", ") },
      ]} />`)}</section>
    <section aria-label="Placements"><h2>Placements</h2>${notReady(bindings, "bindings") ?? (bindings.rows.size === 0 ? html`<${Empty} title="Nothing is placed yet"><p>A PropagationPolicy selects resources and clusters.</p><//>`
      : html`<${Table} caption="Placements" height=${480} rows=${[...bindings.rows.values()]} sort=${place.value.query.get("sort") ?? ""} keyOf=${(/** @type {any} */ r) => r.metadata.uid} columns=${[
        { id: "what", name: "Resource", cell: (/** @type {any} */ r) => `${r.spec?.resource?.kind} ${r.spec?.resource?.namespace}/${r.spec?.resource?.name}` },
        { id: "state", name: "Scheduled", cell: (/** @type {any} */ r) => html`<${Status} status=${scheduled(r)?.status === "True" ? "Ready" : "Pending"} />` },
        { id: "where", name: "Clusters", cell: (/** @type {any} */ r) => (r.spec?.clusters ?? []).map((/** @type {any} */ c) => html`<span class="tag">${c.name}${c.replicas ? ` × ${c.replicas}` : ""}</span> `) },
        { id: "moves", name: "Leaving", cell: (/** @type {any} */ r) => (r.spec?.gracefulEvictionTasks ?? []).map((/** @type {any} */ t) => `${t.fromCluster}: ${t.reason}`).join(", ") },
        { id: "why", name: "Message", wide: true, cell: (/** @type {any} */ r) => scheduled(r)?.message ?? "" },
      ]} />`)}</section>`;
}

/** @param {any} cluster */
const readiness = (cluster) => (cluster.status?.conditions?.find((/** @type {any} */ one) => one.type === "Ready")?.status === "True" ? "Ready" : "NotReady");
/** @param {any} binding */
const scheduled = (binding) => binding.status?.conditions?.find((/** @type {any} */ one) => one.type === "Scheduled");
