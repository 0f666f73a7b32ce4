/** Schedulers that share the pods: their shards, their pace and their conflicts. */
import { Empty, Status, Table, duration, html, notReady, useNow, useView } from "../ui.js";

export function Schedulers() {
  const instances = useView("schedulers");
  const maps = useView("shardmaps");
  const now = useNow(5);
  const members = [...maps.rows.values()].flatMap((one) => (one.status?.members ?? []).map((/** @type {any} */ member) => ({ ...member, map: one })));
  return html`<h1>Schedulers</h1>
    <section aria-label="Instances"><h2>Instances</h2>${notReady(instances, "schedulers") ?? (instances.rows.size === 0
      ? html`<${Empty} title="One scheduler places all pods"><p>The leader among the masters runs it; the overview shows which one. Several share the pods by a shard map: see <code>rota scheduler --help</code>.</p><//>`
      : html`<${Table} caption="Instances of schedulers" height=${400} rows=${[...instances.rows.values()]} keyOf=${(/** @type {any} */ r) => r.metadata.uid} columns=${[
        { id: "name", name: "Scheduler", cell: (/** @type {any} */ r) => r.metadata.name },
        { id: "phase", name: "State", cell: (/** @type {any} */ r) => html`<${Status} status=${r.status?.phase ?? "Unknown"} />` },
        { id: "map", name: "Shard map", cell: (/** @type {any} */ r) => r.spec?.shardOf ?? "" },
        { id: "weight", name: "Weight", num: true, cell: (/** @type {any} */ r) => r.spec?.weight ?? 1 },
        { id: "rate", name: "Decisions/s", num: true, cell: (/** @type {any} */ r) => (r.status?.decisionsPerSecond ?? 0).toFixed(1) },
        { id: "queued", name: "Queued", num: true, cell: (/** @type {any} */ r) => r.status?.queuedPods ?? 0 },
        { id: "bound", name: "Bound", num: true, cell: (/** @type {any} */ r) => r.status?.boundPods ?? 0 },
        { id: "conflicts", name: "Conflicts", num: true, cell: (/** @type {any} */ r) => r.status?.conflicts ?? 0 },
        { id: "seen", name: "Seen", num: true, cell: (/** @type {any} */ r) => (r.status?.heartbeatTime ? `${duration(now - Date.parse(r.status.heartbeatTime) / 1000)} ago` : "") },
      ]} />`)}</section>
    ${members.length > 0 && html`<section aria-label="Shards"><h2>Shards</h2><${Table} caption="Members of shard maps" height=${400} rows=${members} keyOf=${(/** @type {any} */ r) => `${r.map.metadata.uid} ${r.name}`} columns=${[
      { id: "map", name: "Map", cell: (/** @type {any} */ r) => r.map.metadata.name },
      { id: "epoch", name: "Epoch", num: true, cell: (/** @type {any} */ r) => r.map.status?.epoch ?? 0 },
      { id: "member", name: "Member", cell: (/** @type {any} */ r) => r.name },
      { id: "weight", name: "Weight", num: true, cell: (/** @type {any} */ r) => r.weight ?? 1 },
      { id: "pods", name: "Pods", wide: true, cell: (/** @type {any} */ r) => (r.podSelector ? JSON.stringify(r.podSelector) : "its share of all") },
    ]} /></section>`}`;
}
