/** The cluster map: every node as a tile, by any label, filled by what is requested, used or expected. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Empty, Link, Status, Table, cores, go, html, notReady, place, plural, setQuery, size, useView } from "../ui.js";

/** The columns of a row, as in `views/nodes.py`. */
export const NODE = { name: 0, ready: 1, cordoned: 2, pressures: 3, taints: 4, labels: 5, cpu: 6, cpuUsed: 7, memory: 8, memoryUsed: 9, gpus: 10, gpusUsed: 11, pods: 12, podsUsed: 13, created: 14, version: 15, message: 16 };
/** The columns of a forecast, as in `views/forecasts.py`. */
const FORECAST = { node: 0, observed: 1, horizon: 2, cpuUsed: 3, cpuPeak: 4, memoryUsed: 5, memoryPeak: 6, stale: 7 };

/**
 * What tiles can be filled by: a name, how it is known, and the part and the whole of a node. Of a node without a
 * forecast the part is null.
 * @typedef {{name: string, word: string, part: (row: any[], forecast?: any[]) => number | null, whole: number}} Fill
 * @type {Record<string, Fill>}
 */
export const REQUESTED = {
  cpu: { name: "Processor", word: "requested", part: (row) => row[NODE.cpuUsed], whole: NODE.cpu },
  memory: { name: "Memory", word: "requested", part: (row) => row[NODE.memoryUsed], whole: NODE.memory },
  gpu: { name: "GPUs", word: "requested", part: (row) => row[NODE.gpusUsed], whole: NODE.gpus },
  pods: { name: "Pods", word: "placed", part: (row) => row[NODE.podsUsed], whole: NODE.pods },
};
/** @param {number} column @param {string} resource */
const known = (column, resource) => (/** @type {any[]} */ _, /** @type {any[] | undefined} */ forecast) => (forecast && !forecast[FORECAST.stale].includes(resource) ? forecast[column] : null);
/** @type {Record<string, Fill>} */
const FORECASTS = {
  "cpu-used": { name: "Processor", word: "used", part: known(FORECAST.cpuUsed, "cpu"), whole: NODE.cpu },
  "cpu-peak": { name: "Processor", word: "expected at most", part: known(FORECAST.cpuPeak, "cpu"), whole: NODE.cpu },
  "memory-used": { name: "Memory", word: "used", part: known(FORECAST.memoryUsed, "memory"), whole: NODE.memory },
  "memory-peak": { name: "Memory", word: "expected at most", part: known(FORECAST.memoryPeak, "memory"), whole: NODE.memory },
};
const ZONE = "topology.kubernetes.io/zone";
const SPOT = /(spot|preempt|interrupt|evict)/i;

/** How full a node is, from 0 to 1; null if that is not known. @param {any[]} row @param {Fill} fill @param {Map<string, any[]>} forecasts */
function share(row, fill, forecasts) {
  const part = fill.part(row, forecasts.get(`/${row[NODE.name]}`));
  return part === null ? null : row[fill.whole] ? part / row[fill.whole] : 0;
}
/** @param {number | null} part */
const percent = (part) => (part === null ? "not measured" : `${Math.round(part * 100)} %`);
/** @param {any[]} row */
const notice = (row) => row[NODE.taints].find((/** @type {string} */ one) => SPOT.test(one)) ?? "";
/** @param {any[]} row */
const stateOf = (row) => (!row[NODE.ready] ? "NotReady" : row[NODE.pressures].length ? "Pressure" : notice(row) ? "Notice" : row[NODE.cordoned] ? "Cordoned" : "Ready");
/** @param {any[]} row @param {Fill} fill @param {Map<string, any[]>} forecasts */
function inWords(row, fill, forecasts) {
  const part = share(row, fill, forecasts);
  return `${row[NODE.name]}: ${fill.name.toLowerCase()} ${part === null ? "not measured" : `${percent(part)} ${fill.word}`}, ${plural(row[NODE.podsUsed], "pod")}, ${stateOf(row)}`;
}

export function ClusterMap() {
  const { query } = place.value;
  const text = (query.get("q") ?? "").toLowerCase();
  const view = useView("nodes");
  // Clusters without a forecaster have none; the map then shows requests.
  const forecasts = useView("forecasts");
  const fills = forecasts.rows.size ? { ...REQUESTED, ...FORECASTS } : REQUESTED;
  const chosen = query.get("fill") ?? "cpu";
  const fill = fills[chosen] ?? REQUESTED.cpu;
  const other = notReady(view, "nodes");
  const version = view.version.value;
  const measured = forecasts.version.value;
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
  const shares = new Map(rows.map((row) => [row, share(row, fill, forecasts.rows) ?? -1]));
  const fullest = [...rows].sort((a, b) => (shares.get(b) ?? 0) - (shares.get(a) ?? 0)).slice(0, 8);
  return html`<h1>Cluster map</h1>
    <div class="row filters">
      <label>Group by <select value=${by} onChange=${(/** @type {any} */ e) => setQuery({ by: e.target.value })}>
        <option value="none" selected=${by === "none"}>nothing</option>${labels.map((one) => html`<option selected=${one === by}>${one}</option>`)}</select></label>
      <label>Fill by <select value=${chosen} onChange=${(/** @type {any} */ e) => setQuery({ fill: e.target.value })}>
        ${Object.entries(fills).map(([id, one]) => html`<option value=${id} selected=${one === fill}>${one.name} ${one.word}</option>`)}</select></label>
      <label>Find <input data-filter type="search" value=${query.get("q") ?? ""} onInput=${(/** @type {any} */ e) => setQuery({ q: e.target.value })} /></label>
      <span class="muted" role="status">${plural(rows.length, "node")}</span>
    </div>
    ${rows.length === 0
      ? html`<${Empty} title=${view.rows.size ? "No node matches" : "There is no node yet"}><p>${view.rows.size ? "" : html`Add a machine: <code>rota token create</code> here, <code>rota worker --join URL --token TOKEN</code> there.`}</p><//>`
      : html`<${Tiles} rows=${rows} by=${by} fill=${fill} forecasts=${forecasts.rows} measured=${measured} />
    <p class="legend"><span><i class="tile-good"></i>${fill.word}</span><span><i class="tile-full"></i>over 90 %</span><span>▲ not ready</span><span>! pressure</span><span>◇ notice</span><span>/ cordoned</span></p>
    <h2>Fullest by ${fill.name.toLowerCase()} ${fill.word}</h2>
    <${Table} caption="The fullest nodes" rows=${fullest} keyOf=${(/** @type {any[]} */ r) => r[NODE.name]} columns=${[
      { id: "name", name: "Node", cell: (/** @type {any[]} */ r) => html`<${Link} to=${`nodes/${encodeURIComponent(r[NODE.name])}`}>${r[NODE.name]}<//>` },
      { id: "state", name: "State", cell: (/** @type {any[]} */ r) => html`<${NodeStatus} row=${r} />` },
      { id: "share", name: `${fill.name} ${fill.word}`, num: true, cell: (/** @type {any[]} */ r) => percent(share(r, fill, forecasts.rows)) },
      { id: "cpu", name: "Processor", num: true, cell: (/** @type {any[]} */ r) => `${cores(r[NODE.cpuUsed])} / ${cores(r[NODE.cpu])}` },
      { id: "memory", name: "Memory", num: true, cell: (/** @type {any[]} */ r) => `${size(r[NODE.memoryUsed])} / ${size(r[NODE.memory])}` },
      { id: "pods", name: "Pods", num: true, cell: (/** @type {any[]} */ r) => r[NODE.podsUsed] },
    ]} />`}`;
}

/** @param {{row: any[]}} props */
export function NodeStatus({ row }) {
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

const NO_FORECASTS = new Map();
const NONE = new Set();

/**
 * `changed` are nodes with a frame, `unreal` those that have no page, and `name` says what is shown.
 * @param {{rows: any[][], by: string, fill: Fill, forecasts?: Map<string, any[]>, measured?: number, changed?: Set<string>, unreal?: Set<string>, name?: string}} props
 */
export function Tiles({ rows, by, fill, forecasts = NO_FORECASTS, measured = 0, changed = NONE, unreal = NONE, name = "Map" }) {
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
    if (canvas.current && width) draw(canvas.current, placed, width, fill, forecasts, at, changed);
  }, [placed, width, fill, measured, at, changed]);
  const hit = (/** @type {MouseEvent} */ event) =>
    placed.tiles.findIndex((one) => event.offsetX >= one.x && event.offsetX < one.x + placed.tile && event.offsetY >= one.y && event.offsetY < one.y + placed.tile);
  const open = (/** @type {number} */ index) => index >= 0 && !unreal.has(placed.tiles[index].row[NODE.name]) && go(`nodes/${encodeURIComponent(placed.tiles[index].row[NODE.name])}`);
  const key = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: placed.across, ArrowUp: -placed.across }[event.key];
    if (step) {
      event.preventDefault();
      setAt(Math.max(0, Math.min(placed.tiles.length - 1, at < 0 ? 0 : at + step)));
    } else if (event.key === "Enter") open(at);
  };
  const told = at >= 0 && placed.tiles[at] ? inWords(placed.tiles[at].row, fill, forecasts) : "Point at a tile, or move with the arrow keys; Enter opens a node.";
  return html`<div class="map"><canvas ref=${canvas} tabindex="0" role="img" aria-label=${`${name} of ${plural(rows.length, "node")}. ${told}`}
      onMouseMove=${(/** @type {MouseEvent} */ e) => setAt(hit(e))} onMouseLeave=${() => setAt(-1)} onClick=${(/** @type {MouseEvent} */ e) => open(hit(e))} onKeyDown=${key}></canvas></div>
    <p class="map-told" role="status">${told}</p>`;
}

/** @param {HTMLCanvasElement} canvas @param {ReturnType<typeof layout>} placed @param {number} width @param {Fill} fill @param {Map<string, any[]>} forecasts @param {number} at @param {Set<string>} changed */
function draw(canvas, placed, width, fill, forecasts, at, changed) {
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
    const known = share(row, fill, forecasts);
    const part = Math.min(1, known ?? 0);
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
      pen.fillText(known === null ? "?" : `${Math.round(part * 100)} %`, x + 5, y + 29);
    }
    if (index === at || changed.has(row[NODE.name])) {
      pen.strokeStyle = index === at ? accent : ink;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, tile - 2, tile - 2);
      pen.lineWidth = 1;
    }
  });
}
