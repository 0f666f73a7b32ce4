/** One node: what is requested, used and expected there, its devices, and its pods. */
import { merge } from "../api.js";
import { Action, Empty, Link, Meter, Status, Table, amount, cores, duration, html, notReady, plural, podLink, size, useNow, useRight, useView } from "../ui.js";
import { NODE, NodeStatus } from "./map.js";
import { Plot } from "./plot.js";
import { useObjects } from "./pod.js";
import { POD } from "./pods.js";

const GPU_MILLI = "rota.dev/gpu-milli";
const DEVICES = "rota.dev/gpu-devices";
/** Resources that are shown elsewhere on the page. */
const COMMON = ["cpu", "memory", "pods", "ephemeral-storage"];

/** @param {{name: string}} props */
export function NodePage({ name }) {
  const nodes = useView("nodes");
  const pods = useView("pods");
  const now = useNow();
  const mayPatch = useRight("patch", "nodes");
  const title = html`<p class="crumbs"><${Link} to="map">Cluster map<//></p>`;
  const other = notReady(nodes, "nodes");
  if (other) return html`${title}<h1>${name}</h1>${other}`;
  const row = nodes.rows.get(name);
  if (!row) return html`${title}<h1>${name}</h1><${Empty} title="There is no such node"><p><${Link} to="map">Back to the map<//></p><//>`;
  const own = [...pods.rows.values()].filter((one) => one[POD.node] === name).sort((a, b) => b[POD.cpu] - a[POD.cpu]);
  const live = own.filter((one) => !["Succeeded", "Failed"].includes(one[POD.phase]));
  const cordon = () => merge(`/api/v1/nodes/${encodeURIComponent(name)}`, { spec: { unschedulable: row[NODE.cordoned] ? null : true } });
  return html`${title}
    <div class="row between"><h1>${name} <${NodeStatus} row=${row} /></h1>
      <div class="row"><${Link} to=${`what-if?drain=${encodeURIComponent(name)}`}>What if it were drained?<//>
      ${mayPatch && html`<${Action} label=${row[NODE.cordoned] ? "Uncordon" : "Cordon"} act=${cordon}
        question=${row[NODE.cordoned] ? `Let the scheduler place pods on ${name} again?` : `Place no further pods on ${name}? Its ${live.length} pods keep running.`} />`}</div></div>
    ${row[NODE.message] && html`<p class="problem">${row[NODE.message]}</p>`}
    <div class="columns"><section aria-label="Requests"><h2>Requested</h2>
      <${Meter} label="Processor" part=${row[NODE.cpuUsed]} of=${row[NODE.cpu]} text=${`${cores(row[NODE.cpuUsed])} of ${cores(row[NODE.cpu])} cores`} />
      <${Meter} label="Memory" part=${row[NODE.memoryUsed]} of=${row[NODE.memory]} text=${`${size(row[NODE.memoryUsed])} of ${size(row[NODE.memory])}`} />
      ${row[NODE.gpus] > 0 && html`<${Meter} label="GPUs" part=${row[NODE.gpusUsed]} of=${row[NODE.gpus]} text=${`${row[NODE.gpusUsed]} of ${row[NODE.gpus]}`} />`}
      <${Meter} label="Pods" part=${row[NODE.podsUsed]} of=${row[NODE.pods]} text=${`${row[NODE.podsUsed]} of ${row[NODE.pods]}`} />
      <h2>By pod</h2>
      <${Stack} pods=${live} whole=${row[NODE.cpu]} />
      <${Devices} name=${name} />
    </section><section aria-label="Facts"><h2>Facts</h2><dl class="facts">
      <dt>Version</dt><dd>${row[NODE.version]}</dd><dt>Joined</dt><dd>${duration(now - row[NODE.created])} ago</dd>
      ${row[NODE.pressures].length > 0 && html`<dt>Pressure</dt><dd>${row[NODE.pressures].join(", ")}</dd>`}
      <dt>Taints</dt><dd>${row[NODE.taints].length ? row[NODE.taints].map((/** @type {string} */ one) => html`<span class="tag">${one}</span> `) : "none"}</dd>
      <dt>Labels</dt><dd>${Object.entries(row[NODE.labels]).map(([key, value]) => html`<span class="tag">${key}=${value}</span> `)}</dd></dl></section></div>
    <${Forecast} name=${name} />
    <h2>Pods on this node</h2>
    ${notReady(pods, "pods") ?? (own.length === 0 ? html`<${Empty} title="No pod is on this node" />` : html`<${Table} caption="Pods on this node" rows=${own} height=${420} keyOf=${(/** @type {any[]} */ r) => `${r[0]}/${r[1]}`} columns=${[
      { id: "name", name: "Pod", cell: (/** @type {any[]} */ r) => html`<${Link} to=${podLink(r[0], r[1])}>${r[0]}/${r[1]}<//>` },
      { id: "status", name: "Status", cell: (/** @type {any[]} */ r) => html`<${Status} status=${r[POD.status]} />` },
      { id: "cpu", name: "CPU", num: true, cell: (/** @type {any[]} */ r) => cores(r[POD.cpu]) },
      { id: "memory", name: "Memory", num: true, cell: (/** @type {any[]} */ r) => size(r[POD.memory]) },
      { id: "age", name: "Age", num: true, cell: (/** @type {any[]} */ r) => duration(now - r[POD.created]) },
    ]} />`)}`;
}

/** The pods of a node, stacked by size. @param {{pods: any[][], whole: number}} props */
function Stack({ pods, whole }) {
  if (!pods.length || !whole) return html`<p class="muted">Nothing runs here.</p>`;
  return html`<div class="pod-stack" role="img" aria-label=${`${plural(pods.length, "pod")} by requested processor`}>
    ${pods.filter((one) => one[POD.cpu]).map((one) => html`<i title=${`${one[0]}/${one[1]}: ${cores(one[POD.cpu])} cores`} style=${{ width: `${(one[POD.cpu] / whole) * 100}%` }}></i>`)}</div>`;
}

/** What is used of a node, what was used before, and the peak that is expected. @param {{name: string}} props */
function Forecast({ name }) {
  const [found, problem] = useObjects("/apis/rota.dev/v1alpha1/nodeforecasts", `fieldSelector=metadata.name=${encodeURIComponent(name)}`);
  const title = html`<h2>Use and forecast</h2>`;
  if (problem) return html`${title}<p class="muted">Not shown: ${problem.message}</p>`;
  if (!found) return html`${title}<p class="muted">Reading …</p>`;
  const { status } = found[0] ?? {};
  if (!status?.resources?.length) return html`${title}<p class="muted">Nothing is measured: <code>rota forecaster</code> publishes what nodes use and the peaks that are to be expected.</p>`;
  const within = `within ${duration(status.horizonSeconds ?? 0)}`;
  return html`<section aria-label="Use and forecast">${title}<div class="plots">${status.resources.map((/** @type {any} */ one) => {
    const say = one.resource === "cpu" ? (/** @type {number} */ value) => cores(Math.round(value * 1000)) : size;
    const until = Date.parse(status.observedTime) / 1000;
    const past = one.history ?? [];
    const every = status.intervalSeconds || 1;
    const peak = amount(one.peak);
    const samples = [...past.map((/** @type {string} */ value, /** @type {number} */ at) => [until - (past.length - at) * every, value === "" ? null : amount(value), null]), [until, amount(one.used), peak], [until + (status.horizonSeconds ?? every), null, peak]];
    return html`<div key=${one.resource}>
      <p>${one.resource}: <b>${say(amount(one.used))}</b> used, <b>${say(peak)}</b> expected at most ${within}, ${say(amount(one.requested))} requested${one.basis === "Measured" ? "" : ` (${one.basis}: requests count, too little is measured)`}</p>
      <${Plot} title=${`${one.resource} over time`} samples=${samples} series=${[["used", 1, "--accent"], ["expected peak", 2, "--waits"]]} say=${say} />
      ${one.record?.forecasts > 0 && html`<p class="muted small">${plural(one.record.forecasts, "forecast")} so far, ${one.record.violations} too low.</p>`}</div>`;
  })}</div></section>`;
}

/** GPUs and other countable things of a node, and which pods have which. @param {{name: string}} props */
function Devices({ name }) {
  const [nodes] = useObjects("/api/v1/nodes", `fieldSelector=metadata.name=${encodeURIComponent(name)}`);
  const [pods] = useObjects("/api/v1/pods", `fieldSelector=${encodeURIComponent(`spec.nodeName=${name}`)}`);
  const allocatable = nodes?.[0]?.status?.allocatable ?? {};
  const offered = Object.entries(allocatable).filter(([key]) => !COMMON.includes(key) && !key.startsWith("hugepages-"));
  if (!offered.length) return null;
  const live = (pods ?? []).filter((one) => !["Succeeded", "Failed"].includes(one.status?.phase));
  const asked = (/** @type {any} */ pod, /** @type {string} */ key) => pod.spec.containers.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + amount(one.resources?.requests?.[key] ?? one.resources?.limits?.[key] ?? "0"), 0);
  const gpus = allocatable[GPU_MILLI] ? Math.round(amount(allocatable[GPU_MILLI]) / 1000) : 0;
  return html`<h2>Devices</h2>${offered.map(([key, value]) => {
    const sum = live.reduce((total, pod) => total + asked(pod, key), 0);
    return html`<${Meter} key=${key} label=${key} part=${sum} of=${amount(value)} text=${`${sum} of ${value}`} />`;
  })}
  ${gpus > 0 && html`<ul class="plain">${[...Array(gpus).keys()].map((number) => {
    const own = live.filter((pod) => (pod.metadata.annotations?.[DEVICES] ?? "").split(",").includes(String(number)));
    return html`<li key=${number}><b>GPU ${number}</b> ${own.length ? own.map((pod) => html`<${Link} to=${podLink(pod.metadata.namespace, pod.metadata.name)}>${pod.metadata.namespace}/${pod.metadata.name}<//>${asked(pod, GPU_MILLI) ? ` ${asked(pod, GPU_MILLI) / 10} %` : " whole"} `) : html`<span class="muted">free</span>`}</li>`;
  })}</ul>`}`;
}
