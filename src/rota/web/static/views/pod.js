/** One pod: its state, events, log, explanation and YAML, and what the user may do with it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, follow, json, lines, podPath, request, text } from "../api.js";
import { whyNoExec } from "../exec.js";
import { Action, ContainerChoice, Empty, Link, Status, Tabs, duration, go, html, place, plural, podLink, useFeatures, useNow, useRight } from "../ui.js";
import { Files, hasOutputs } from "./files.js";
import { Terminal } from "./terminal.js";
import { Usage } from "./usage.js";
import { Why } from "./why.js";

/** @param {string} path @param {string} query @returns {[any[] | null, Error | null]} */
export function useObjects(path, query) {
  const [objects, setObjects] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Error | null} */ (null));
  useEffect(() => {
    const ending = new AbortController();
    follow(path, query, ending.signal, setObjects).catch((error) => ending.signal.aborted || setProblem(error));
    return () => ending.abort();
  }, [path, query]);
  return [objects, problem];
}

/** @param {{namespace: string, name: string}} props */
export function PodPage({ namespace, name }) {
  const tab = place.value.query.get("tab") ?? "state";
  const [found, problem] = useObjects(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`, `fieldSelector=metadata.name=${encodeURIComponent(name)}`);
  const mayDelete = useRight("delete", "pods", namespace);
  const mayExec = useRight("create", "pods/exec", namespace);
  const mayLog = useRight("get", "pods/log", namespace);
  const features = useFeatures();
  const title = html`<p class="crumbs"><${Link} to="pods">Pods<//> / <${Link} to=${`pods?namespace=${encodeURIComponent(namespace)}`}>${namespace}<//></p>`;
  if (problem) return html`${title}<${Empty} title="This pod cannot be shown"><p>${problem.message}</p><//>`;
  // Tabs depend on rights: they must not move under the pointer when the answers arrive.
  if (!found || mayLog === undefined || mayExec === undefined || !features) return html`${title}<h1>${name}</h1><${Empty} title="Reading the pod …" />`;
  const pod = found[0];
  if (!pod) return html`${title}<h1>${name}</h1><${Empty} title="This pod does not exist any more"><p><${Link} to="pods">All pods<//></p><//>`;
  const status = pod.metadata.deletionTimestamp ? "Terminating" : pod.status?.reason || pod.status?.phase || "Pending";
  const noExec = whyNoExec(namespace, mayExec, features);
  const notRunning = pod.status?.phase === "Running" ? "" : "It needs a running container, and the pod is not running.";
  const noTerminal = noExec || notRunning;
  const noFiles = hasOutputs(pod) ? "" : noExec || notRunning;
  const remove = async () => {
    await request(podPath(namespace, name), { method: "DELETE" });
    go("pods");
  };
  return html`${title}
    <div class="row between"><h1>${name} <${Status} status=${status} /></h1>
      <div class="row">${mayDelete && html`<${Action} danger label="Delete" question=${`Delete pod ${namespace}/${name}? Its containers are stopped.`} act=${remove} />`}</div></div>
    <${Tabs} current=${tab} tabs=${[["state", "State"], ...(mayLog ? [["log", "Log"]] : []), ["why", pod.spec.nodeName ? "Why here" : "Why it waits"], ["terminal", "Terminal", noTerminal], ["files", "Files", noFiles], ["yaml", "YAML"]]} />
    ${tab === "log" ? html`<${Log} pod=${pod} />`
      : tab === "why" ? html`<${Why} pod=${pod} />`
      : tab === "terminal" ? (noTerminal ? html`<${Empty} title="There is no terminal here"><p>${noTerminal}</p><//>` : html`<${Terminal} pod=${pod} />`)
      : tab === "files" ? html`<${Files} pod=${pod} barred=${noExec} />`
      : tab === "yaml" ? html`<${Yaml} path=${podPath(namespace, name)} version=${pod.metadata.resourceVersion} />`
      : html`<${State} pod=${pod} />`}`;
}

/** @param {{pod: any}} props */
function State({ pod }) {
  const now = useNow(5);
  const { namespace, name, uid } = pod.metadata;
  const [events, problem] = useObjects(`/api/v1/namespaces/${encodeURIComponent(namespace)}/events`, `fieldSelector=${encodeURIComponent(`involvedObject.uid=${uid}`)}`);
  const ago = (/** @type {string} */ when) => (when ? `${duration(now - Date.parse(when) / 1000)} ago` : "");
  const shown = [...(events ?? [])].sort((a, b) => whenOf(b).localeCompare(whenOf(a)));
  const owner = pod.metadata.ownerReferences?.find((/** @type {any} */ one) => one.controller);
  return html`<div class="columns"><section aria-label="State">
      <h2>State</h2>
      <dl class="facts">
        <dt>Node</dt><dd>${pod.spec.nodeName ? html`<${Link} to=${`nodes/${encodeURIComponent(pod.spec.nodeName)}`}>${pod.spec.nodeName}<//>` : html`none yet, <${Link} to=${podLink(namespace, name, "why")}>why?<//>`}</dd>
        <dt>Created</dt><dd>${ago(pod.metadata.creationTimestamp)}</dd>
        ${owner && html`<dt>Owner</dt><dd>${owner.kind} ${owner.name}</dd>`}
        <dt>Priority</dt><dd>${pod.spec.priority ?? 0}</dd>
        ${pod.status?.message && html`<dt>Message</dt><dd>${pod.status.message}</dd>`}
        <dt>Labels</dt><dd>${Object.entries(pod.metadata.labels ?? {}).map(([key, value]) => html`<span class="tag">${key}=${value}</span> `)}</dd>
      </dl>
      <h2>Containers</h2>
      <ul class="plain">${pod.spec.containers.map((/** @type {any} */ one) => {
        const state = pod.status?.containerStatuses?.find((/** @type {any} */ s) => s.name === one.name);
        const [kind, how] = Object.entries(state?.state ?? { waiting: {} })[0];
        const detail = /** @type {any} */ (how);
        const word = kind === "running" ? "Running" : detail.reason ?? (kind === "terminated" ? (detail.exitCode ? "Error" : "Completed") : "Waiting");
        return html`<li><b>${one.name}</b> <${Status} status=${word} /> ${kind === "terminated" && html`<span>exit code ${detail.exitCode}</span>`}
          ${state?.restartCount > 0 && html`<span class="muted"> ${state.restartCount} restarts</span>`}
          ${detail.message && html`<p class="small">${detail.message}</p>`}
          <p class="mono small wrap">${[...(one.command ?? []), ...(one.args ?? [])].join(" ") || one.image}</p></li>`;
      })}</ul>
      <h2>Conditions</h2>
      <ul class="plain">${(pod.status?.conditions ?? []).map((/** @type {any} */ one) => html`<li>
        <${Status} status=${one.type} kind=${one.status === "True" ? "good" : "waits"} /> <span class="muted">${one.reason}</span> ${one.message}</li>`)}</ul>
    </section><section aria-label="Events"><h2>Events</h2>
      ${problem && html`<p class="muted">${problem.message}</p>`}
      ${events && shown.length === 0 && html`<p class="muted">No events are kept about this pod.</p>`}
      <ul class="plain events">${shown.map((one) => html`<li><${Status} status=${one.reason} kind=${one.type === "Warning" ? "bad" : "good"} />
        <span class="muted"> ${ago(whenOf(one))}${(one.series?.count ?? one.count ?? 1) > 1 ? ` · ${one.series?.count ?? one.count} times` : ""}</span>
        <p>${one.message}</p></li>`)}</ul>
    </section></div><${Usage} pod=${pod} />`;
}

/** @param {any} event @returns {string} */
const whenOf = (event) => event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";

/** @param {{path: string, version: string}} props */
function Yaml({ path, version }) {
  const [shown, setShown] = useState("Reading …");
  useEffect(() => {
    text(path, { accept: "application/yaml" }).then(setShown, (error) => setShown(error.message));
  }, [path, version]);
  return html`<pre class="code" tabindex="0" aria-label="YAML of the object">${shown}</pre>`;
}

const MOST_LINES = 5000;
/** Lines in one part of a log: the browser lays out only parts in sight, and only the last part changes. */
const PART = 100;
/** The page shows new lines at most so often. */
const SHOW_MS = 250;

/** @param {{pod: any}} props */
export function Log({ pod }) {
  const containers = pod.spec.containers.map((/** @type {any} */ one) => one.name);
  const [container, setContainer] = useState(containers[0]);
  const [previous, setPrevious] = useState(false);
  const [search, setSearch] = useState("");
  const [tail, setTail] = useState(true);
  const [told, setTold] = useState(/** @type {{lines: string[], dropped: number, state: string}} */ ({ lines: [], dropped: 0, state: "reading" }));
  const box = useRef(/** @type {HTMLPreElement | null} */ (null));
  const started = pod.status?.phase !== "Pending";
  const restarts = pod.status?.containerStatuses?.find((/** @type {any} */ one) => one.name === container)?.restartCount ?? 0;
  useEffect(() => {
    const ending = new AbortController();
    /** @type {string[]} */
    let kept = [];
    let dropped = 0;
    /** @type {number | undefined} */
    let timer;
    const show = (/** @type {string} */ state) => {
      clearTimeout(timer);
      timer = undefined;
      setTold({ lines: kept, dropped, state });
    };
    show(started ? "reading" : "waiting");
    if (!started) return () => {};
    const read = async () => {
      const query = new URLSearchParams({ container, tailLines: "2000", ...(previous ? { previous: "true" } : { follow: "true" }) });
      try {
        for await (const some of lines(`${podPath(pod.metadata.namespace, pod.metadata.name)}/log?${query}`, ending.signal)) {
          const all = [...kept, ...some];
          kept = all.slice(-MOST_LINES);
          dropped += all.length - kept.length;
          timer ??= setTimeout(() => show("live"), SHOW_MS);
        }
        if (!ending.signal.aborted) show("ended");
      } catch (error) {
        if (ending.signal.aborted) return;
        const { code, message } = /** @type {ApiError} */ (error);
        show(message);
        // After a lost connection the log is read again, from its beginning.
        if (code === 0 || code >= 500) setTimeout(() => !ending.signal.aborted && ((kept = []), (dropped = 0), read()), 1500);
      }
    };
    read();
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [pod.metadata.uid, container, previous, started, restarts]);
  useEffect(() => {
    if (tail && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [told, tail]);
  const wanted = search.toLowerCase();
  const shown = wanted ? told.lines.filter((line) => line.toLowerCase().includes(wanted)) : told.lines;
  const word = { reading: "reading …", waiting: "the pod has not started", live: "live", ended: "the container has ended" }[told.state] ?? told.state;
  return html`<div class="row filters">
      <${ContainerChoice} containers=${containers} choose=${setContainer} />
      <label>Search <input type="search" data-filter value=${search} onInput=${(/** @type {any} */ e) => setSearch(e.target.value)} /></label>
      <label class="check"><input type="checkbox" checked=${tail} onChange=${(/** @type {any} */ e) => setTail(e.target.checked)} /> Follow</label>
      ${restarts > 0 && html`<label class="check"><input type="checkbox" checked=${previous} onChange=${(/** @type {any} */ e) => setPrevious(e.target.checked)} /> Previous run</label>`}
      <span class="muted" role="status">${plural(shown.length, "line")} · ${word}</span></div>
    <pre class="code log" ref=${box} tabindex="0" role="log" aria-label="Log">${partsOf(shown, wanted ? 0 : told.dropped).map(([key, text]) => html`<span key=${key} class="part">${text}</span>`)}</pre>`;
}

/** The lines in parts, whose limits stay where they are when old lines are dropped. @param {string[]} lines @param {number} dropped @returns {[number, string][]} */
function partsOf(lines, dropped) {
  /** @type {[number, string][]} */
  const parts = [];
  for (let at = 0; at < lines.length; ) {
    const number = Math.floor((dropped + at) / PART);
    const next = Math.min(lines.length, (number + 1) * PART - dropped);
    parts.push([number, `${lines.slice(at, next).join("\n")}\n`]);
    at = next;
  }
  return parts;
}
