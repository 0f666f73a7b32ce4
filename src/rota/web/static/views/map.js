/** The cluster map: every node as a tile, by any label, filled by what its pods request; and the page of one node. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { merge } from "../api.js";
import { Action, Empty, Link, Meter, Status, Table, cores, go, html, notReady, place, plural, podLink, setQuery, size, useNow, duration, useRight, useView } from "../ui.js";
import { POD } from "./pods.js";

/** The columns of a row, as in `views/nodes.py`. */
const NODE = { name: 0, ready: 1, cordoned: 2, pressures: 3, taints: 4, labels: 5, cpu: 6, cpuUsed: 7, memory: 8, memoryUsed: 9, gpus: 10, gpusUsed: 11, pods: 12, podsUsed: 13, created: 14, version: 15, message: 16 };
const FILLS = { cpu: ["Processor", NODE.cpuUsed, NODE.cpu], memory: ["Memory", NODE.memoryUsed, NODE.memory], gpu: ["GPUs", NODE.gpusUsed, NODE.gpus], pods: ["Pods", NODE.podsUsed, NODE.pods] };
const ZONE = "topology.kubernetes.io/zone";
const SPOT = /(spot|preempt|interrupt|evict)/i;

/** @param {any[]} row @param {keyof typeof FILLS} fill */
const share = (row, fill) => (row[FILLS[fill][2]] ? row[FILLS[fill][1]] / row[FILLS[fill][2]] : 0);
/** @param {any[]} row */
const notice = (row) => row[NODE.taints].find((/** @type {string} */ one) => SPOT.test(one)) ?? "";
/** @param {any[]} row */
const stateOf = (row) => (!row[NODE.ready] ? "NotReady" : row[NODE.pressures].length ? "Pressure" : notice(row) ? "Notice" : row[NODE.cordoned] ? "Cordoned" : "Ready");
/** @param {any[]} row @param {keyof typeof FILLS} fill */
const inWords = (row, fill) => `${row[NODE.name]}: ${FILLS[fill][0].toLowerCase()} ${Math.round(share(row, fill) * 100)} % requested, ${row[NODE.podsUsed]} pods, ${stateOf(row)}`;

export function ClusterMap() {
  const { query } = place.value;
  const fill = /** @type {keyof typeof FILLS} */ (query.get("fill") ?? "cpu");
  const text = (query.get("q") ?? "").toLowerCase();
  const view = useView("nodes");
  const other = notReady(view, "nodes");
  const version = view.version.value;
  const zoned = useMemo(() => [...view.rows.values()].some((row) => row[NODE.labels][ZONE]), [view.rows.size]);
  const by = query.get("by") ?? (zoned ? ZONE : "none");
  const rows = useMemo(
    () => [...view.rows.values()].filter((row) => !text || row[NODE.name].toLowerCase().includes(text) || Object.entries(row[NODE.labels]).some(([k, v]) => `${k}=${v}`.toLowerCase().includes(text))),
    [version, text],
  );
  const labels = useMemo(() => {
    const found = new Set([ZONE]);
    for (const row of [...view.rows.values()].slice(0, 500)) for (const key of Object.keys(row[NODE.labels])) found.add(key);
    return [...found].sort();
  }, [view.rows.size]);
  if (other) return html`<h1>Cluster map</h1>${other}`;
  const fullest = [...rows].sort((a, b) => share(b, fill) - share(a, fill)).slice(0, 8);
  return html`<h1>Cluster map</h1>
    <div class="row filters">
      <label>Group by <select value=${by} onChange=${(/** @type {any} */ e) => setQuery({ by: e.target.value })}>
        <option value="none" selected=${by === "none"}>nothing</option>${labels.map((one) => html`<option selected=${one === by}>${one}</option>`)}</select></label>
      <label>Fill by <select value=${fill} onChange=${(/** @type {any} */ e) => setQuery({ fill: e.target.value })}>
        ${Object.entries(FILLS).map(([id, [name]]) => html`<option value=${id} selected=${id === fill}>${name} requested</option>`)}</select></label>
      <label>Find <input data-filter type="search" value=${query.get("q") ?? ""} onInput=${(/** @type {any} */ e) => setQuery({ q: e.target.value })} /></label>
      <span class="muted" role="status">${plural(rows.length, "node")}</span>
    </div>
    ${rows.length === 0
      ? html`<${Empty} title=${view.rows.size ? "No node matches" : "There is no node yet"}><p>${view.rows.size ? "" : html`Add a machine: <code>rota token create</code> here, <code>rota worker --join URL --token TOKEN</code> there.`}</p><//>`
      : html`<${Tiles} rows=${rows} by=${by} fill=${fill} />
    <p class="legend"><span><i class="tile-good"></i>requested</span><span><i class="tile-full"></i>over 90 %</span><span>▲ not ready</span><span>! pressure</span><span>◇ notice</span><span>/ cordoned</span></p>
    <h2>Fullest by ${FILLS[fill][0].toLowerCase()}</h2>
    <${Table} caption="The fullest nodes" rows=${fullest} keyOf=${(/** @type {any[]} */ r) => r[NODE.name]} columns=${[
      { id: "name", name: "Node", cell: (/** @type {any[]} */ r) => html`<${Link} to=${`nodes/${encodeURIComponent(r[NODE.name])}`}>${r[NODE.name]}<//>` },
      { id: "state", name: "State", cell: (/** @type {any[]} */ r) => html`<${NodeStatus} row=${r} />` },
      { id: "share", name: `${FILLS[fill][0]} requested`, num: true, cell: (/** @type {any[]} */ r) => `${Math.round(share(r, fill) * 100)} %` },
      { id: "cpu", name: "Processor", num: true, cell: (/** @type {any[]} */ r) => `${cores(r[NODE.cpuUsed])} / ${cores(r[NODE.cpu])}` },
      { id: "memory", name: "Memory", num: true, cell: (/** @type {any[]} */ r) => `${size(r[NODE.memoryUsed])} / ${size(r[NODE.memory])}` },
      { id: "pods", name: "Pods", num: true, cell: (/** @type {any[]} */ r) => r[NODE.podsUsed] },
    ]} />`}`;
}

/** @param {{row: any[]}} props */
function NodeStatus({ row }) {
  const state = stateOf(row);
  return html`<${Status} status=${state} kind=${{ Ready: "good", Cordoned: "waits", Notice: "waits" }[state] ?? "bad"} />`;
}

/** Where each tile is. @param {any[][]} rows @param {string} by @param {number} width */
function layout(rows, by, width) {
  /** @type {Map<string, any[][]>} */
  const groups = new Map();
  for (const row of rows) {
    const key = by === "none" ? "" : row[NODE.labels][by] ?? `no ${by}`;
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  const tile = rows.length > 2000 ? 13 : rows.length > 600 ? 20 : rows.length > 100 ? 34 : rows.length > 12 ? 64 : 104;
  const step = tile + Math.max(2, Math.round(tile / 12));
  const across = Math.max(1, Math.floor(width / step));
  /** @type {{x: number, y: number, row: any[]}[]} */
  const tiles = [];
  /** @type {{y: number, name: string, count: number}[]} */
  const heads = [];
  let y = 0;
  for (const [name, group] of [...groups].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (name) {
      heads.push({ y: y + 13, name, count: group.length });
      y += 20;
    }
    group.sort((a, b) => (a[0] < b[0] ? -1 : 1));
    group.forEach((row, at) => tiles.push({ x: (at % across) * step, y: y + Math.floor(at / across) * step, row }));
    y += Math.ceil(group.length / across) * step + 12;
  }
  return { tiles, heads, tile, step, across, height: Math.max(y, 40) };
}

/** @param {{rows: any[][], by: string, fill: keyof typeof FILLS}} props */
function Tiles({ rows, by, fill }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(-1);
  const placed = useMemo(() => layout(rows, by, width || 800), [rows, by, width]);
  useEffect(() => {
    const box = /** @type {HTMLElement} */ (canvas.current?.parentElement);
    const watch = new ResizeObserver(() => setWidth(box.clientWidth));
    watch.observe(box);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width) draw(canvas.current, placed, width, fill, at);
  }, [placed, width, fill, at]);
  const hit = (/** @type {MouseEvent} */ event) =>
    placed.tiles.findIndex((one) => event.offsetX >= one.x && event.offsetX < one.x + placed.tile && event.offsetY >= one.y && event.offsetY < one.y + placed.tile);
  const open = (/** @type {number} */ index) => index >= 0 && go(`nodes/${encodeURIComponent(placed.tiles[index].row[NODE.name])}`);
  const key = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: placed.across, ArrowUp: -placed.across }[event.key];
    if (step) {
      event.preventDefault();
      setAt(Math.max(0, Math.min(placed.tiles.length - 1, at < 0 ? 0 : at + step)));
    } else if (event.key === "Enter") open(at);
  };
  const told = at >= 0 && placed.tiles[at] ? inWords(placed.tiles[at].row, fill) : "Point at a tile, or move with the arrow keys; Enter opens a node.";
  return html`<div class="map"><canvas ref=${canvas} tabindex="0" role="img" aria-label=${`Map of ${plural(rows.length, "node")}. ${told}`}
      onMouseMove=${(/** @type {MouseEvent} */ e) => setAt(hit(e))} onMouseLeave=${() => setAt(-1)} onClick=${(/** @type {MouseEvent} */ e) => open(hit(e))} onKeyDown=${key}></canvas></div>
    <p class="map-told" role="status">${told}</p>`;
}

/** @param {HTMLCanvasElement} canvas @param {ReturnType<typeof layout>} placed @param {number} width @param {keyof typeof FILLS} fill @param {number} at */
function draw(canvas, placed, width, fill, at) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = placed.height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${placed.height}px`;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const [ground, good, full, bad, ink, muted, accent] = ["--tile", "--tile-good", "--tile-full", "--bad", "--ink", "--muted", "--accent"].map(colour);
  const { tile } = placed;
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = muted;
  for (const head of placed.heads) pen.fillText(`${head.name} · ${plural(head.count, "node")}`, 0, head.y);
  placed.tiles.forEach(({ x, y, row }, index) => {
    const part = Math.min(1, share(row, fill));
    pen.fillStyle = ground;
    pen.fillRect(x, y, tile, tile);
    pen.fillStyle = part > 0.9 ? full : good;
    pen.fillRect(x, y + tile * (1 - part), tile, tile * part);
    const state = stateOf(row);
    if (state !== "Ready") {
      pen.strokeStyle = pen.fillStyle = state === "Cordoned" ? ink : bad;
      if (state === "Cordoned") {
        pen.beginPath();
        pen.moveTo(x + 1, y + tile - 1);
        pen.lineTo(x + tile - 1, y + 1);
        pen.stroke();
      } else {
        pen.font = `bold ${Math.max(9, Math.min(18, tile * 0.7))}px system-ui, sans-serif`;
        pen.textAlign = "center";
        pen.fillText({ NotReady: "▲", Pressure: "!", Notice: "◇" }[state] ?? "?", x + tile / 2, y + tile / 2 + Math.min(6, tile * 0.25));
        pen.textAlign = "left";
      }
    }
    if (tile >= 60) {
      pen.fillStyle = ink;
      pen.font = "11px system-ui, sans-serif";
      pen.fillText(row[NODE.name].length > tile / 6.2 ? `${row[NODE.name].slice(0, Math.floor(tile / 6.2) - 1)}…` : row[NODE.name], x + 5, y + 15);
      pen.fillText(`${Math.round(part * 100)} %`, x + 5, y + 29);
    }
    if (index === at) {
      pen.strokeStyle = accent;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y - 1, tile + 2, tile + 2);
      pen.lineWidth = 1;
    }
  });
}

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
    </section><section aria-label="Facts"><h2>Facts</h2><dl class="facts">
      <dt>Version</dt><dd>${row[NODE.version]}</dd><dt>Joined</dt><dd>${duration(now - row[NODE.created])} ago</dd>
      ${row[NODE.pressures].length > 0 && html`<dt>Pressure</dt><dd>${row[NODE.pressures].join(", ")}</dd>`}
      <dt>Taints</dt><dd>${row[NODE.taints].length ? row[NODE.taints].map((/** @type {string} */ one) => html`<span class="tag">${one}</span> `) : "none"}</dd>
      <dt>Labels</dt><dd>${Object.entries(row[NODE.labels]).map(([key, value]) => html`<span class="tag">${key}=${value}</span> `)}</dd></dl></section></div>
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
