/** The cluster map before and after a change that was only asked about. */
import { useMemo } from "preact/hooks";
import { Link, Table, amount, cores, html, place, plural, setQuery, size } from "../ui.js";
import { NODE, REQUESTED, Tiles } from "./map.js";
import { POD } from "./pods.js";

const FILLS = { cpu: REQUESTED.cpu, memory: REQUESTED.memory, pods: REQUESTED.pods };

/** What a pod takes of a node. @typedef {{cpu: number, memory: number, gpus: number}} Size */

/** @param {any} spec A question. @param {Map<string, any[]>} pods @returns {(pod: string) => Size} */
function sizes(spec, pods) {
  const added = new Map((spec.pods ?? []).map((/** @type {any} */ one) => [`${one.metadata.namespace}/${one.metadata.name}`, one]));
  return (pod) => {
    const row = pods.get(pod);
    if (row) return { cpu: row[POD.cpu], memory: row[POD.memory], gpus: row[POD.gpus] };
    const requests = added.get(pod)?.spec.containers[0].resources.requests ?? {};
    return { cpu: amount(requests.cpu) * 1000, memory: amount(requests.memory), gpus: 0 };
  };
}

/** A node that is only asked about. @param {string} name @param {any} allocatable */
function newNode(name, allocatable) {
  const row = Array(Object.keys(NODE).length).fill("");
  const known = { name, ready: true, cordoned: false, pressures: [], taints: [], labels: {}, cpu: amount(allocatable.cpu) * 1000, memory: amount(allocatable.memory), gpus: 0, pods: amount(allocatable.pods), created: 0 };
  for (const one of /** @type {(keyof typeof NODE)[]} */ (["cpuUsed", "memoryUsed", "gpusUsed", "podsUsed"])) row[NODE[one]] = 0;
  for (const [key, value] of Object.entries(known)) row[NODE[/** @type {keyof typeof NODE} */ (key)]] = value;
  return row;
}

/**
 * The nodes as they would be: drained ones are cordoned, new ones are there, and pods are where the answer puts them.
 * @param {any[][]} nodes @param {Map<string, any[]>} pods @param {any} told The answer. @param {any} spec The question.
 * @returns {{rows: any[][], changed: Set<string>, added: Set<string>}}
 */
export function afterwards(nodes, pods, told, spec) {
  const rows = new Map(nodes.map((row) => [row[NODE.name], [...row]]));
  const sizeOf = sizes(spec, pods);
  const moved = ["moves", "placed", "preempted", "lost", "waits"].flatMap((kind) => told[kind] ?? []).filter((one) => !one.unchanged);
  const targets = new Set(moved.map((one) => one.to).filter((name) => name && !rows.has(name)));
  /** @type {Set<string>} */
  const added = new Set();
  for (const group of spec.addNodes ?? []) {
    // The answer names new nodes that get pods; the others are named in the same way.
    for (let number = 0, left = group.number; left > 0; number += 1) {
      const name = [...targets][0] ?? `node-${number}`;
      targets.delete(name);
      if (rows.has(name)) continue;
      rows.set(name, newNode(name, group.allocatable));
      added.add(name);
      left -= 1;
    }
  }
  const changed = new Set(added);
  for (const name of spec.drain ?? []) {
    const row = rows.get(name);
    if (row) row[NODE.cordoned] = true;
    changed.add(name);
  }
  const add = (/** @type {string} */ name, /** @type {Size} */ taken, /** @type {number} */ sign) => {
    const row = rows.get(name);
    if (!row) return;
    row[NODE.cpuUsed] = Math.max(0, row[NODE.cpuUsed] + sign * taken.cpu);
    row[NODE.memoryUsed] = Math.max(0, row[NODE.memoryUsed] + sign * taken.memory);
    row[NODE.gpusUsed] = Math.max(0, row[NODE.gpusUsed] + sign * taken.gpus);
    row[NODE.podsUsed] = Math.max(0, row[NODE.podsUsed] + sign);
    changed.add(name);
  };
  for (const one of moved) {
    const taken = sizeOf(one.pod);
    const from = one.from ?? one.node;
    if (from) add(from, taken, -1);
    if (one.to) add(one.to, taken, 1);
  }
  return { rows: [...rows.values()], changed, added };
}

/** @param {{nodes: Map<string, any[]>, pods: Map<string, any[]>, told: any, spec: any}} props */
export function BeforeAndAfter({ nodes, pods, told, spec }) {
  // The answer is about the cluster of that moment: both maps stay as they were then.
  const { before, after } = useMemo(() => {
    const rows = [...nodes.values()].map((row) => [...row]);
    return { before: rows, after: afterwards(rows, pods, told, spec) };
  }, [told]);
  const chosen = place.value.query.get("fill") ?? "cpu";
  const fill = FILLS[/** @type {keyof typeof FILLS} */ (chosen)] ?? FILLS.cpu;
  const old = new Map(before.map((row) => [row[NODE.name], row]));
  const changed = after.rows.filter((row) => after.changed.has(row[NODE.name])).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  const pair = (/** @type {any[]} */ row, /** @type {(row: any[]) => string | number} */ say) => `${old.has(row[0]) ? say(/** @type {any[]} */ (old.get(row[0]))) : "–"} → ${say(row)}`;
  return html`<section aria-label="Before and after"><div class="row between"><h3>Before and after</h3>
      <label class="muted">Fill by <select value=${chosen} onChange=${(/** @type {any} */ e) => setQuery({ fill: e.target.value })}>
        ${Object.entries(FILLS).map(([id, one]) => html`<option value=${id} selected=${one === fill}>${one.name} ${one.word}</option>`)}</select></label></div>
    <div class="columns"><figure class="card"><figcaption>Now <span class="muted">${plural(before.length, "node")}</span></figcaption><${Tiles} name="Map before" rows=${before} by="none" fill=${fill} changed=${after.changed} /></figure>
      <figure class="card"><figcaption>Afterwards <span class="muted">${plural(after.rows.length, "node")}, ${after.changed.size} of them changed (framed)</span></figcaption><${Tiles} name="Map afterwards" rows=${after.rows} by="none" fill=${fill} changed=${after.changed} unreal=${after.added} /></figure></div>
    <${Table} caption="Nodes that change" height=${300} rows=${changed} keyOf=${(/** @type {any[]} */ r) => r[0]} columns=${[
      { id: "name", name: "Node that changes", cell: (/** @type {any[]} */ r) => (after.added.has(r[0]) ? html`${r[0]} <span class="tag">new</span>` : html`<${Link} to=${`nodes/${encodeURIComponent(r[0])}`}>${r[0]}<//>${(spec.drain ?? []).includes(r[0]) && html` <span class="tag">drained</span>`}`) },
      { id: "cpu", name: "Processor, cores", num: true, cell: (/** @type {any[]} */ r) => `${pair(r, (one) => cores(one[NODE.cpuUsed]))} of ${cores(r[NODE.cpu])}` },
      { id: "memory", name: "Memory", num: true, cell: (/** @type {any[]} */ r) => `${pair(r, (one) => size(one[NODE.memoryUsed]))} of ${size(r[NODE.memory])}` },
      { id: "pods", name: "Pods", num: true, cell: (/** @type {any[]} */ r) => pair(r, (one) => one[NODE.podsUsed]) },
    ]} /></section>`;
}
