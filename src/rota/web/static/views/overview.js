/** The whole cluster at a glance: what runs, what waits, what is wrong, and the figures of the last 24 hours. */
import { Empty, Link, Meter, Status, cores, duration, html, notReady, plural, podLink, size, useNow, useView } from "../ui.js";
import { Plot } from "./plot.js";

const PHASES = ["Running", "Pending", "Succeeded", "Failed", "Unknown"];

export function Overview() {
  const view = useView("overview");
  const now = useNow(5);
  const other = notReady(view, "the cluster");
  if (other) return other;
  const told = view.document;
  const wrong = problems(told);
  return html`<h1>Overview</h1>
    <section class="cards" aria-label="State of the cluster">
      <div class="card"><h2>Masters</h2>
        ${told.masters.length === 0 && html`<p class="muted">No master is registered here.</p>`}
        <ul class="plain">${told.masters.map((/** @type {any} */ one) => html`<li>
          <${Status} status=${one.current ? "Ready" : "Gone"} kind=${one.current ? "good" : "bad"} />
          <span class="mono">${one.address.replace("https://", "")}</span>
          ${one.leads.length > 0 && html`<span class="tag">leads ${one.leads.join(", ")}</span>`}</li>`)}</ul></div>
      <div class="card"><h2><${Link} to="map">Nodes<//></h2>
        <p class="figure">${told.nodes.ready}<span class="muted"> of ${plural(told.nodes.total, "node")} ready</span></p>
        ${told.nodes.cordoned > 0 && html`<p>${plural(told.nodes.cordoned, "node")} cordoned</p>`}
        <${Meter} label="Processor" part=${told.cpu[0]} of=${told.cpu[1]} text=${`${cores(told.cpu[0])} of ${cores(told.cpu[1])} cores`} />
        <${Meter} label="Memory" part=${told.memory[0]} of=${told.memory[1]} text=${`${size(told.memory[0])} of ${size(told.memory[1])}`} />
        ${told.gpu[1] > 0 && html`<${Meter} label="GPUs" part=${told.gpu[0]} of=${told.gpu[1]} text=${`${told.gpu[0]} of ${told.gpu[1]}`} />`}
        <p class="muted small">Requested by pods, of what nodes have.</p></div>
      <div class="card"><h2><${Link} to="pods">Pods<//></h2>
        <ul class="plain phases">${PHASES.filter((one) => told.phases[one] || one === "Running").map((one) => html`<li>
          <${Link} to=${`pods?phase=${one}`}><${Status} status=${one} /> <span class="num">${(told.phases[one] ?? 0).toLocaleString("en")}</span><//></li>`)}</ul></div>
    </section>
    <section aria-label="What is wrong"><h2>What is wrong</h2>
      ${wrong.length === 0 && html`<${Empty} title="Nothing needs attention"><p>Every node is ready, no pod waits for a node, and none has failed.</p><//>`}
      <ul class="plain problems">${wrong.map(([kind, text, link]) => html`<li><${Status} status="" kind=${kind} /> <${Link} to=${link}>${text}<//></li>`)}</ul>
      ${told.waiting.length > 0 && html`<h3>Waiting the longest</h3><div class="table-box" tabindex="0" role="region" aria-label="Waiting pods"><table>
        <thead><tr><th>Pod</th><th>Waits</th><th class="wide">Because</th></tr></thead>
        <tbody>${told.waiting.map((/** @type {any} */ one) => html`<tr><td><${Link} to=${podLink(one.namespace, one.name, "why")}>${one.namespace}/${one.name}<//></td>
          <td class="num">${duration(now - one.created)}</td><td class="wide">${one.message || "the scheduler has not looked at it yet"}</td></tr>`)}</tbody></table></div>`}
    </section>
    <section aria-label="Figures"><h2>Last 24 hours ${view.samples.length > 1 && html`<span class="muted small">since ${new Date(view.samples[0][0] * 1000).toLocaleString()}</span>`}</h2>
      ${view.samples.length < 2
        ? html`<${Empty} title="Figures are being collected"><p>They begin with the first dashboard that is opened at this server; the first points come within 20 seconds.</p><//>`
        : html`<div class="plots">
          <${Plot} title="Pods" samples=${view.samples} series=${[["running", 1, "--good"], ["waiting", 2, "--waits"]]} />
          <${Plot} title="Decisions a second" samples=${view.samples} series=${[["decisions", 3, "--accent"]]} />
          <${Plot} title="From pod to node, seconds" samples=${view.samples} series=${[["median", 4, "--accent"], ["99 %", 5, "--bad"]]} />
        </div>`}
    </section>`;
}

/** Sentences with a link. @param {any} told @returns {[string, string, string][]} */
function problems(told) {
  /** @type {[string, string, string][]} */
  const found = [];
  for (const one of told.masters)
    if (!one.current) found.push(["bad", `The master at ${one.address} has not reported for a while.`, "overview"]);
  for (const one of told.not_ready)
    found.push(["bad", `Node ${one.name} is not ready${one.message ? `: ${one.message}` : "."}`, `nodes/${encodeURIComponent(one.name)}`]);
  if (told.nodes.pressured) found.push(["bad", `${plural(told.nodes.pressured, "node reports", "nodes report")} pressure.`, "map?fill=memory"]);
  if (told.waiting_total) found.push(["waits", `${plural(told.waiting_total, "pod waits", "pods wait")} for a node.`, "pods?phase=Pending"]);
  for (const one of told.failed)
    found.push(["bad", `Pod ${one.namespace}/${one.name} failed${one.message ? `: ${one.message}` : "."}`, podLink(one.namespace, one.name, "log")]);
  if (!told.nodes.total) found.push(["waits", "There is no node: start a worker with rota worker.", "map"]);
  return found;
}
