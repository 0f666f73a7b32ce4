/** Parts that several pages use. */
import { h } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import htm from "htm";
import { can } from "./api.js";
import { features } from "./features.js";
import { follow } from "./live.js";

export const html = htm.bind(h);

// Where we are: the path below /dashboard/ and its parameters.

export const BASE = "/dashboard/";
const read = () => ({ path: location.pathname.slice(BASE.length), query: new URLSearchParams(location.search) });
export const place = signal(read());
addEventListener("popstate", () => (place.value = read()));

/** @param {string} to @param {{replace?: boolean}} [options] */
export function go(to, options = {}) {
  history[options.replace ? "replaceState" : "pushState"](null, "", BASE + to);
  place.value = read();
  if (!options.replace) scrollTo(0, 0);
}

/** Change parameters of the present address. @param {Record<string, string>} changes */
export function setQuery(changes) {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const told = query.toString();
  go(place.value.path + (told ? `?${told}` : ""), { replace: true });
}

/** A link within the dashboard. @param {any} props */
export function Link({ to, children, ...rest }) {
  const open = (/** @type {MouseEvent} */ event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${BASE + to} onClick=${open} ...${rest}>${children}</a>`;
}

/** @param {string} namespace @param {string} name @param {string} [tab] */
export const podLink = (namespace, name, tab) =>
  `pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}${tab ? `?tab=${tab}` : ""}`;

/** Follow a live view while a component is shown. @param {string} name @param {string} [namespace] */
export function useView(name, namespace = "") {
  const following = useMemo(() => follow(name, namespace), [name, namespace]);
  useEffect(() => following.end, [following]);
  // Reading them makes the component follow both.
  following.view.version.value;
  following.view.status.value;
  return following.view;
}

/** Whether the user may do it; undefined until that is known. @param {Parameters<typeof can>} what */
export function useRight(...what) {
  const [allowed, setAllowed] = useState(/** @type {boolean | undefined} */ (undefined));
  useEffect(() => {
    let here = true;
    can(...what).then((answer) => here && setAllowed(answer));
    return () => void (here = false);
  }, what);
  return allowed;
}

/** What this server can do; undefined until that is known. */
export function useFeatures() {
  const [known, setKnown] = useState(/** @type {import("./features.js").Features | undefined} */ (undefined));
  useEffect(() => {
    let here = true;
    features().then((answer) => here && setKnown(answer));
    return () => void (here = false);
  }, []);
  return known;
}

/** The time, every so many seconds. @param {number} [every] */
export function useNow(every = 10) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), every * 1000);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

// Texts

/** @param {number} seconds */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s < 600 && s % 60 ? `${s % 60}s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${s < 36000 && s % 3600 >= 60 ? `${Math.floor((s % 3600) / 60)}m` : ""}`;
  return `${Math.floor(s / 86400)}d${s < 864000 ? `${Math.floor((s % 86400) / 3600)}h` : ""}`;
}

/** @param {number} bytes */
export function size(bytes) {
  for (const [unit, factor] of /** @type {const} */ ([["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 1024]]))
    if (bytes >= factor) return `${(bytes / factor).toFixed(bytes / factor < 10 ? 1 : 0)} ${unit}`;
  return `${bytes}`;
}

const UNITS = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 1024, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };

/** The value of a quantity such as `250m` or `2Gi`. @param {string | number | undefined} text */
export function amount(text) {
  const found = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(String(text ?? "0"));
  return found ? Number(found[1]) * (found[2] ? UNITS[found[2]] ?? NaN : 1) : NaN;
}

/** @param {number} milli */
export const cores = (milli) => (milli % 1000 ? (milli / 1000).toFixed(milli < 1000 ? 2 : 1) : `${milli / 1000}`);
/** @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** Give the user a file. @param {string} name @param {Blob} content */
export function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// Small parts

const KINDS = {
  good: ["Running", "Ready", "Succeeded", "Completed", "True", "Open", "Current", "Schedulable", "Inqueue", "Active", "Cached"],
  waits: ["Pending", "ContainerCreating", "PodInitializing", "Waiting", "Held", "SchedulingGated", "Suspended", "Cordoned", "Skipped"],
  ends: ["Terminating", "Cancelled", "Unknown"],
};

/** How a status is drawn: by colour and by shape. @param {string} status */
export function kindOf(status) {
  if (KINDS.good.includes(status)) return ["Succeeded", "Completed", "Cached"].includes(status) ? "done" : "good";
  if (KINDS.waits.includes(status)) return "waits";
  if (KINDS.ends.includes(status)) return "ends";
  return "bad";
}

const SHAPES = { good: "●", done: "✓", waits: "◐", ends: "○", bad: "▲" };

/** @param {{status: string, kind?: keyof typeof SHAPES}} props */
export function Status({ status, kind }) {
  const how = kind ?? kindOf(status);
  return html`<span class=${`status ${how}`}><span aria-hidden="true">${SHAPES[how]}</span> ${status}</span>`;
}

/** A bar with its value in words. @param {{part: number, of: number, label: string, text: string}} props */
export function Meter({ part, of, label, text }) {
  const share = of ? Math.min(1, part / of) : 0;
  return html`<div class="meter">
    <div class="meter-head"><span>${label}</span><span class="num">${text}</span></div>
    <div class="bar" role="img" aria-label=${`${label}: ${Math.round(share * 100)} percent`}>
      <div class=${share > 0.95 ? "full" : ""} style=${{ width: `${share * 100}%` }}></div>
    </div>
  </div>`;
}

/** @param {{title: string, children?: any}} props */
export const Empty = ({ title, children }) => html`<div class="empty"><p class="empty-title">${title}</p>${children}</div>`;

/** What to show while a view has no rows yet, or never will; null once it is ready. @param {any} view @param {string} what */
export function notReady(view, what) {
  const { state, why } = view.status.value;
  if (state === "loading") return html`<${Empty} title=${`Reading ${what} …`} />`;
  if (state === "refused")
    return html`<${Empty} title=${`You may not see ${what}`}>
      <p>Your user lacks the right to ${why}. An administrator grants it with a role; see <code>kubectl create clusterrolebinding --help</code>.
      If you have it in one namespace, choose that namespace above.</p><//>`;
  if (state === "absent")
    return html`<${Empty} title=${`This cluster has no ${what}`}><p>It does not serve <code>${why}</code>.</p><//>`;
  if (state === "failed") return html`<${Empty} title=${`${what} cannot be read`}><p>${why}</p><//>`;
  return null;
}

/**
 * Parts of a page. One with a reason why it is not offered is shown without a link, so that no other one moves when the
 * reason ends.
 * @param {{tabs: [id: string, name: string, barred?: string][], current: string, param?: string}} props
 */
export function Tabs({ tabs, current, param = "tab" }) {
  const base = place.value.path;
  const to = (/** @type {string} */ id) => {
    const query = new URLSearchParams(place.value.query);
    query.set(param, id);
    return `${base}?${query}`;
  };
  return html`<nav class="tabs" aria-label="Parts of this page">
    ${tabs.map(([id, name, barred]) => barred
      ? html`<span key=${id} class="barred" role="link" aria-disabled="true" tabindex="0" title=${barred}>${name}</span>`
      : html`<${Link} key=${id} to=${to(id)} aria-current=${id === current ? "page" : undefined}>${name}<//>`)}
  </nav>`;
}

/**
 * An action with a question before it, and a field for a value if it needs one.
 * @param {{label: string, question: string, act: (value: string) => Promise<any>, danger?: boolean, field?: {label: string, value: string, type: string}}} props
 */
export function Action({ label, question, act, danger, field }) {
  const [open, setOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const run = async () => {
    if (input.current && !input.current.reportValidity()) return;
    setBusy(true);
    try {
      await act(input.current?.value ?? "");
      setOpen(false);
    } catch (error) {
      setProblem(String(/** @type {Error} */ (error).message));
    } finally {
      setBusy(false);
    }
  };
  return html`<button class=${danger ? "danger" : ""} onClick=${() => { setProblem(""); setOpen(true); }}>${label}</button>
    ${open && html`<dialog ref=${dialog} onClose=${() => setOpen(false)} aria-label=${label}>
      <p>${question}</p>
      ${field && html`<p><label>${field.label} <input ref=${input} type=${field.type} min="0" required value=${field.value} /></label></p>`}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="row end"><button onClick=${() => setOpen(false)}>Cancel</button>
      <button class=${danger ? "danger" : "primary"} disabled=${busy} onClick=${run}>${label}</button></div>
    </dialog>`}`;
}

/** Which container of a pod; nothing if it has one only. @param {{containers: string[], choose: (name: string) => void}} props */
export const ContainerChoice = ({ containers, choose }) => (containers.length > 1
  ? html`<label>Container <select onChange=${(/** @type {any} */ e) => choose(e.target.value)}>${containers.map((one) => html`<option>${one}</option>`)}</select></label>`
  : null);

const ROW = 33;

/**
 * A table of any length: only the rows in sight are in the page.
 * @param {{columns: {id: string, name: string, cell: (row: any) => any, sort?: (row: any) => any, num?: boolean, wide?: boolean}[],
 *   rows: any[], keyOf: (row: any) => string, caption: string, sort?: string, height?: number}} props
 */
export function Table({ columns, rows, keyOf, caption, sort = "", height }) {
  const [top, setTop] = useState(0);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [by, down] = sort.startsWith("-") ? [sort.slice(1), true] : [sort, false];
  const column = columns.find((one) => one.id === by);
  const ordered = useMemo(() => {
    if (!column?.sort) return rows;
    const value = column.sort;
    const keyed = rows.map((row) => [value(row), row]);
    keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    if (down) keyed.reverse();
    return keyed.map(([, row]) => row);
  }, [rows, by, down]);
  const seen = Math.ceil((height ?? 2000) / ROW) + 12;
  const first = Math.max(0, Math.min(Math.floor(top / ROW) - 6, ordered.length - seen));
  const shown = ordered.slice(first, first + seen);
  return html`<div class="table-box" ref=${box} tabindex="0" role="region" aria-label=${caption}
      style=${height ? { maxHeight: `${height}px` } : {}}
      onScroll=${() => setTop(box.current?.scrollTop ?? 0)}>
    <table aria-rowcount=${ordered.length + 1}>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns.map((one) => html`<th scope="col" class=${`${one.num ? "num" : ""} ${one.wide ? "wide" : ""}`}
          aria-sort=${one.id === by ? (down ? "descending" : "ascending") : undefined}>
        ${one.sort ? html`<button class="sort" onClick=${() => setQuery({ sort: one.id === by && !down ? `-${one.id}` : one.id })}>
          ${one.name}${one.id === by ? (down ? " ↓" : " ↑") : ""}</button>` : one.name}</th>`)}</tr></thead>
      <tbody>
        ${first > 0 && html`<tr aria-hidden="true" style=${{ height: `${first * ROW}px` }}></tr>`}
        ${shown.map((row, at) => html`<tr key=${keyOf(row)} aria-rowindex=${first + at + 2}>
          ${columns.map((one) => html`<td class=${`${one.num ? "num" : ""} ${one.wide ? "wide" : ""}`}>${one.cell(row)}</td>`)}</tr>`)}
        ${first + shown.length < ordered.length &&
          html`<tr aria-hidden="true" style=${{ height: `${(ordered.length - first - shown.length) * ROW}px` }}></tr>`}
      </tbody>
    </table></div>`;
}
