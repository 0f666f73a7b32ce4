/** The explanation of the scheduler as a picture: nodes by plugins, what filters a node out, and the stacked scores. */
import { useEffect, useState } from "preact/hooks";
import { ApiError, json, podPath } from "../api.js";
import { Empty, Link, Status, html, plural, podLink } from "../ui.js";

const HUES = [172, 28, 262, 205, 340, 95, 48, 310, 230, 10, 140, 285];

/** @param {{pod: any}} props */
export function Why({ pod }) {
  const { namespace, name, resourceVersion } = pod.metadata;
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {ApiError | null} */ (null));
  useEffect(() => {
    let here = true;
    json(`${podPath(namespace, name)}/explain?limit=200`).then(
      (answer) => here && (setTold(answer), setProblem(null)),
      (error) => here && setProblem(error),
    );
    return () => void (here = false);
  }, [namespace, name, resourceVersion]);
  if (problem) {
    const condition = pod.status?.conditions?.find((/** @type {any} */ one) => one.type === "PodScheduled");
    return html`<${Empty} title="The scheduler's explanation is not to be had">
      <p>${problem.code === 404 ? "This API server does not explain pods; rota explain computes it from the outside." : problem.message}</p>
      ${condition?.message && html`<p>The scheduler's last word: ${condition.message}</p>`}<//>`;
  }
  if (!told) return html`<${Empty} title="Asking the scheduler …" />`;
  const plugins = pluginsOf(told);
  const nodes = told.nodes ?? [];
  const most = Math.max(1, ...nodes.map((/** @type {any} */ one) => one.total ?? 0));
  return html`<section aria-label="Explanation">
    <p class="lead"><${Status} status=${told.outcome} /> ${name} ${told.summary}</p>
    ${told.nominated && html`<p>Preemption would make room on <b>${told.nominated}</b> by evicting ${victims(told.victims)}.</p>`}
    ${told.noRoom && html`<p>Preemption does not help: ${told.noRoom.replace(/^preemption: /, "")}</p>`}
    ${(told.changes ?? []).length > 0 && html`<h2>What would have to change</h2><ul class="plain changes">${told.changes.map((/** @type {any} */ one) => html`<li>
      <span class="tag">${one.plugin}</span> ${one.text}
      <p class="muted small">${plural(one.nodes, "node")}${one.opens ? `; on ${one.opens} it is the only obstacle` : ""}${one.examples?.length ? `, such as ${one.examples.slice(0, 3).join(", ")}` : ""}</p></li>`)}</ul>`}
    <h2>Nodes</h2>
    ${nodes.length === 0 && html`<${Empty} title="No node was looked at"><p>Add one with <code>rota worker --join URL</code>.</p><//>`}
    ${nodes.length > 0 && html`
      <p class="legend" aria-hidden="true">${plugins.scored.map((one) => html`<span><i style=${{ background: colour(plugins.scored, one) }}></i>${one}</span>`)}</p>
      <div class="table-box" tabindex="0" role="region" aria-label="Nodes by plugins"><table class="why">
      <thead><tr><th scope="col">Node</th>${plugins.filters.map((one) => html`<th scope="col" class="slant">${one}</th>`)}<th scope="col" class="wide">Score</th></tr></thead>
      <tbody>${nodes.map((/** @type {any} */ node) => html`<tr class=${node.name === (told.currentNode || told.node) ? "chosen" : ""}>
        <th scope="row"><${Link} to=${`nodes/${encodeURIComponent(node.name)}`}>${node.name}<//>
          ${node.name === told.currentNode && html` <span class="tag">here</span>`}${node.name === told.node && !told.currentNode && html` <span class="tag">would be chosen</span>`}</th>
        ${plugins.filters.map((one) => {
          const refusal = (node.refusals ?? []).find((/** @type {any} */ r) => r.plugin === one);
          return html`<td class=${refusal ? "refused" : "passed"} title=${refusal?.reasons?.join("; ") ?? "passes"}>
            <span aria-hidden="true">${refusal ? "✕" : "·"}</span><span class="hidden">${refusal ? refusal.reasons?.join("; ") || "refused" : "passes"}</span></td>`;
        })}
        <td class="wide">${node.feasible ? html`<div class="stack" role="img" aria-label=${`${node.total}: ${(node.scores ?? []).map((/** @type {any} */ s) => `${s.plugin} ${s.weighted}`).join(", ")}`}>
            ${(node.scores ?? []).map((/** @type {any} */ s) => html`<i title=${`${s.plugin}: ${s.weighted} (${s.score} × ${s.weight ?? 1})`} style=${{ width: `${(s.weighted / most) * 80}%`, background: colour(plugins.scored, s.plugin) }}></i>`)}<b class="num">${node.total ?? 0}</b></div>`
          : html`<span>${(node.refusals ?? []).flatMap((/** @type {any} */ r) => r.reasons ?? []).join("; ")}</span>
            ${node.eviction?.victims?.length > 0 && html`<p class="small">would have to evict ${victims(node.eviction.victims)}${node.eviction.budgetsBroken ? `, ${node.eviction.budgetsBroken} of them protected by budgets` : ""}</p>`}
            ${node.eviction?.reason && html`<p class="muted small">${node.eviction.reason}</p>`}`}</td></tr>`)}</tbody></table></div>`}
    ${told.omitted > 0 && html`<p class="muted">${plural(told.omitted, "further node")} not shown.</p>`}
  </section>`;
}

/** @param {any[]} pods */
const victims = (pods) => (pods ?? []).map((one, at) => html`${at ? ", " : ""}<${Link} to=${podLink(one.namespace, one.name)}>${one.namespace}/${one.name}<//>`);

/** @param {any} told */
function pluginsOf(told) {
  const filters = new Set(), scored = new Set();
  for (const node of told.nodes ?? []) {
    for (const one of node.refusals ?? []) filters.add(one.plugin);
    for (const one of node.scores ?? []) if (one.weighted) scored.add(one.plugin);
  }
  return { filters: [...filters], scored: [...scored].sort() };
}

/** @param {string[]} all @param {string} one */
const colour = (all, one) => `hsl(${HUES[Math.max(0, all.indexOf(one)) % HUES.length]} 42% 52%)`;
