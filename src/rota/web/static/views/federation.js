/** Federation: the clusters and how full they are, where each resource is placed, and what moved and why. */
import { Empty, Meter, Status, Table, amount, cores, duration, html, notReady, place, size, useNow, useView } from "../ui.js";

/** The columns of a move, as in `views/moves.py`. */
const MOVE = { at: 0, kind: 1, namespace: 2, name: 3, before: 4, after: 5, why: 6 };

export function Federation() {
  const clusters = useView("clusters");
  const bindings = useView("bindings");
  const moves = useView("moves");
  const now = useNow(5);
  const absent = clusters.status.value.state === "absent";
  if (absent)
    return html`<h1>Federation</h1><${Empty} title="This cluster is not the control plane of a federation">
      <p><code>rota federation up</code> starts one, and <code>rota federation join</code> adds clusters to it. Its dashboard shows clusters and placements here.</p><//>`;
  const moved = [...moves.rows.values()].sort((a, b) => b[MOVE.at] - a[MOVE.at]);
  return html`<h1>Federation</h1>
    <section aria-label="Clusters"><h2>Clusters</h2>${notReady(clusters, "clusters") ?? (clusters.rows.size === 0 ? html`<${Empty} title="No cluster has joined"><p><code>rota federation join NAME --member KUBECONFIG</code></p><//>`
      : html`<div class="cards">${[...clusters.rows.values()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)).map((one) => html`<${Cluster} key=${one.metadata.uid} cluster=${one} bindings=${bindings.rows} />`)}</div>`)}</section>
    <section aria-label="Placements"><h2>Placements</h2>${notReady(bindings, "bindings") ?? (bindings.rows.size === 0 ? html`<${Empty} title="Nothing is placed yet"><p>A PropagationPolicy selects resources and clusters.</p><//>`
      : html`<${Table} caption="Placements" height=${480} rows=${[...bindings.rows.values()]} sort=${place.value.query.get("sort") ?? ""} keyOf=${(/** @type {any} */ r) => r.metadata.uid} columns=${[
        { id: "what", name: "Resource", sort: resourceOf, cell: resourceOf },
        { id: "state", name: "State", cell: (/** @type {any} */ r) => html`<${Status} ...${stateOf(r)} />` },
        { id: "where", name: "Clusters (ready of replicas)", cell: (/** @type {any} */ r) => (r.spec?.clusters ?? []).map((/** @type {any} */ c) => html`<span class="tag">${c.name}${c.replicas ? ` ${readyIn(r, c.name)} of ${c.replicas}` : ""}</span> `) },
        { id: "moves", name: "Leaving", cell: (/** @type {any} */ r) => (r.spec?.gracefulEvictionTasks ?? []).map((/** @type {any} */ t) => `${t.fromCluster}: ${t.reason}`).join(", ") },
        { id: "why", name: "Message", wide: true, cell: messageOf },
      ]} />`)}</section>
    <section aria-label="Moves"><h2>What moved, and why</h2>${notReady(moves, "moves") ?? (moved.length === 0 ? html`<${Empty} title="Nothing has moved"><p>Moves are shown from the time on when this page was first opened at this server.</p><//>`
      : html`<${Table} caption="Moves" height=${420} rows=${moved} keyOf=${(/** @type {any[]} */ r) => `${r[MOVE.at]} ${r[MOVE.namespace]}/${r[MOVE.name]}`} columns=${[
        { id: "at", name: "When", cell: (/** @type {any[]} */ r) => `${duration(now - r[MOVE.at])} ago` },
        { id: "what", name: "Resource", cell: (/** @type {any[]} */ r) => `${r[MOVE.kind]} ${r[MOVE.namespace]}/${r[MOVE.name]}` },
        { id: "from", name: "From", cell: (/** @type {any[]} */ r) => places(r[MOVE.before]) },
        { id: "to", name: "To", cell: (/** @type {any[]} */ r) => places(r[MOVE.after]) },
        { id: "why", name: "Why", wide: true, cell: (/** @type {any[]} */ r) => r[MOVE.why] },
      ]} />`)}</section>`;
}

/** @param {[string, number][]} some */
const places = (some) => (some.length ? some.map(([name, replicas]) => html`<span class="tag">${name}${replicas ? ` × ${replicas}` : ""}</span> `) : html`<span class="muted">nowhere</span>`);

/** One cluster: its state, how full it is, and how much is placed there. @param {{cluster: any, bindings: Map<string, any>}} props */
function Cluster({ cluster, bindings }) {
  const { resourceSummary, nodeSummary, kubernetesVersion } = cluster.status ?? {};
  const ready = condition(cluster, "Ready");
  const here = [...bindings.values()].filter((one) => one.spec?.clusters?.some((/** @type {any} */ c) => c.name === cluster.metadata.name)).length;
  const share = (/** @type {string} */ name, /** @type {string} */ label, /** @type {(value: number) => string} */ say, /** @type {number} */ factor) => {
    const [part, of] = [resourceSummary?.allocated?.[name], resourceSummary?.allocatable?.[name]].map((one) => amount(one) * factor);
    return of ? html`<${Meter} label=${label} part=${part} of=${of} text=${`${say(part)} of ${say(of)}`} />` : null;
  };
  const taints = (cluster.spec?.taints ?? []).map((/** @type {any} */ t) => `${t.key}:${t.effect}`);
  return html`<div class="card"><h3>${cluster.metadata.name} <${Status} status=${ready?.status === "True" ? "Ready" : "NotReady"} /></h3>
    <p class="muted small">${[[cluster.spec?.provider, cluster.spec?.region, cluster.spec?.zone].filter(Boolean).join(" / "), `${cluster.spec?.syncMode ?? "Push"} mode`, kubernetesVersion].filter(Boolean).join(" · ")}</p>
    ${ready?.status !== "True" && ready?.message && html`<p class="problem">${ready.message}</p>`}
    ${taints.map((/** @type {string} */ one) => html`<p><span class="tag">${one}</span></p>`)}
    <p>${nodeSummary?.readyNum ?? 0} of ${nodeSummary?.totalNum ?? 0} nodes ready · ${here} placed here</p>
    ${share("cpu", "Processor", (value) => `${cores(Math.round(value))}`, 1000)}${share("memory", "Memory", size, 1)}</div>`;
}

/** @param {any} object @param {string} type */
const condition = (object, type) => object.status?.conditions?.find((/** @type {any} */ one) => one.type === type);
/** @param {any} binding */
const resourceOf = (binding) => `${binding.spec?.resource?.kind} ${binding.spec?.resource?.namespace}/${binding.spec?.resource?.name}`;
/** @param {any} binding @param {string} cluster */
const readyIn = (binding, cluster) => binding.status?.aggregatedStatus?.find((/** @type {any} */ one) => one.clusterName === cluster)?.status?.readyReplicas ?? 0;

/** @param {any} binding @returns {{status: string, kind: "good" | "waits" | "bad"}} */
function stateOf(binding) {
  if (condition(binding, "Scheduled")?.status !== "True") return { status: "Not placed", kind: "waits" };
  const reports = binding.status?.aggregatedStatus ?? [];
  if (reports.some((/** @type {any} */ one) => one.health === "Unhealthy")) return { status: "Unhealthy", kind: "bad" };
  return condition(binding, "FullyApplied")?.status === "True" ? { status: "Applied", kind: "good" } : { status: "Being applied", kind: "waits" };
}

/** What a user has to know: why it is not placed, or what a cluster says against it. @param {any} binding */
function messageOf(binding) {
  const scheduled = condition(binding, "Scheduled");
  if (scheduled?.status !== "True") return scheduled?.message ?? "the scheduler has not looked at it yet";
  const refused = (binding.status?.aggregatedStatus ?? []).filter((/** @type {any} */ one) => one.appliedMessage);
  return refused.map((/** @type {any} */ one) => `${one.clusterName}: ${one.appliedMessage}`).join("; ") || scheduled.message;
}
