/** What-if: drain nodes, add nodes, place pods, change the configuration; the answer says who moves and who waits. Nothing is changed by a question. */
import { useEffect, useState } from "preact/hooks";
import { ApiError, json, merge, request } from "../api.js";
import { Action, Empty, Link, Status, html, place, plural, podLink, setQuery, useRight, useView } from "../ui.js";
import { BeforeAndAfter } from "./whatif_map.js";

const PATH = "/apis/rota.dev/v1alpha1/whatifs";

/** The question of the present address. @param {URLSearchParams} query */
function questionOf(query) {
  /** @type {Record<string, any>} */
  const spec = {};
  const drain = (query.get("drain") ?? "").split(/[\s,]+/).filter(Boolean);
  if (drain.length) spec.drain = drain;
  if (Number(query.get("nodes")) > 0)
    spec.addNodes = [{ number: Number(query.get("nodes")), allocatable: { cpu: query.get("nodeCpu") || "4", memory: query.get("nodeMemory") || "16Gi", pods: "110" } }];
  const requests = { cpu: query.get("cpu") || "1", memory: query.get("memory") || "1Gi" };
  if (Number(query.get("pods")) > 0)
    spec.pods = [...Array(Math.min(1000, Number(query.get("pods")))).keys()].map((at) => ({
      apiVersion: "v1", kind: "Pod", metadata: { name: `new-${at + 1}`, namespace: "default" },
      spec: { containers: [{ name: "main", image: "none", resources: { requests } }] },
    }));
  return spec;
}

/**
 * A question with a configuration, which is YAML of the user: the server reads it, the page has no parser.
 * @param {string} spec JSON, which is YAML too. @param {string} configuration
 */
function manifestOf(spec, configuration) {
  const parts = Object.entries(JSON.parse(spec)).map(([name, value]) => `  ${name}: ${JSON.stringify(value)}`);
  if (configuration) parts.push("  reschedule: true", "  configuration:", ...configuration.split("\n").map((line) => `    ${line}`));
  return ["apiVersion: rota.dev/v1alpha1", "kind: WhatIf", "spec:", ...parts, ""].join("\n");
}

/** @param {string} manifest @param {AbortSignal} signal */
async function ask(manifest, signal) {
  return (await request(PATH, { method: "POST", signal, text: manifest, type: "application/yaml" })).json();
}

export function WhatIf() {
  const { query } = place.value;
  const nodes = useView("nodes");
  const pods = useView("pods");
  const may = useRight("create", "whatifs", "", "rota.dev");
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [state, setState] = useState("");
  const spec = questionOf(query);
  const [configuration, setConfiguration] = useState("");
  const written = JSON.stringify(spec);
  const asked = written === "{}" && !configuration ? "" : manifestOf(written, configuration);
  useEffect(() => {
    setTold(null);
    if (!may || !asked) return setState("");
    const ending = new AbortController();
    setState("asking");
    // A question is asked once the form has been left alone for a moment.
    const timer = setTimeout(() => {
      ask(asked, ending.signal).then(
        (answer) => (setTold(answer.status ?? {}), setState("")),
        (error) => ending.signal.aborted || setState(/** @type {ApiError} */ (error).message),
      );
    }, 500);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [asked, may]);
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {object} */ more = {}) =>
    html`<label>${label} <input value=${query.get(name) ?? ""} ...${more} onChange=${(/** @type {any} */ e) => setQuery({ [name]: e.target.value.trim() })} /></label>`;
  return html`<h1>What if</h1>
    <p class="muted">The scheduler answers on a copy of the cluster. Nothing is changed.</p>
    ${!may && html`<${Empty} title="You may not ask what-if questions here"><p>It needs the right to create <code>whatifs.rota.dev</code>, which the role <code>rota:what-if</code> has. On other clusters <code>rota what-if</code> computes the answer.</p><//>`}
    ${may && html`<div class="what-if">
      <fieldset><legend>Drain nodes</legend>${field("drain", "Names", { list: "nodes", placeholder: "worker-1, worker-2", size: 28 })}
        <datalist id="nodes">${[...nodes.rows.keys()].slice(0, 2000).map((one) => html`<option value=${one}></option>`)}</datalist></fieldset>
      <fieldset><legend>Add nodes</legend>${field("nodes", "Number", { type: "number", min: 0, max: 10000 })} ${field("nodeCpu", "Cores", { placeholder: "4", size: 5 })} ${field("nodeMemory", "Memory", { placeholder: "16Gi", size: 7 })}</fieldset>
      <fieldset><legend>Place pods</legend>${field("pods", "Number", { type: "number", min: 0, max: 1000 })} ${field("cpu", "Cores", { placeholder: "1", size: 5 })} ${field("memory", "Memory", { placeholder: "1Gi", size: 7 })}</fieldset>
      <fieldset><legend>Change the scheduler's configuration</legend><label class="block">KubeSchedulerConfiguration
        <textarea rows="3" spellcheck=${false} placeholder="Paste a file; all pods are placed again with it." onChange=${(/** @type {any} */ e) => setConfiguration(e.target.value.trim())}></textarea></label></fieldset></div>`}
    <div role="status">${state === "asking" ? html`<${Empty} title="Asking the scheduler …" />` : state && html`<p class="problem">${state}</p>`}
      ${may && !asked && html`<${Empty} title="What would you like to change?"><p>Name a node to drain, say how many nodes or pods to add, or paste a configuration.</p><//>`}
      ${told && html`<${Answer} told=${told} spec=${spec} nodes=${nodes} pods=${pods} />`}</div>`;
}

/** @param {{told: any, spec: any, nodes: any, pods: any}} props */
function Answer({ told, spec, nodes, pods }) {
  const count = (/** @type {any[]} */ some) => some?.length ?? 0;
  // Pods that wait now and would go on waiting are not the question's doing.
  const already = (told.waits ?? []).filter((/** @type {any} */ one) => one.unchanged);
  const waits = (told.waits ?? []).filter((/** @type {any} */ one) => !one.unchanged);
  const fine = !count(waits) && !count(told.lost) && !count(told.preempted) && told.fits !== false;
  return html`<h2>Answer</h2>
    <p class="lead"><${Status} status=${fine ? "Everything finds a place" : "Not everything finds a place"} kind=${fine ? "good" : "bad"} />${" "}
      ${plural(count(told.moves), "pod moves", "pods move")}, ${plural(count(told.placed), "pod")} without a node ${count(told.placed) === 1 ? "gets" : "get"} one, ${plural(count(waits), "pod waits", "pods wait")}${already.length ? ` (and ${already.length} that wait already)` : ""}, ${count(told.preempted)} preempted, ${count(told.lost)} lost.</p>
    ${(told.allocated ?? []).length > 0 && html`<p>${told.allocated.map((/** @type {any} */ one) => html`<span class="tag">${one.resource}: ${one.before / 10} % → ${one.after / 10} %</span> `)} <span class="muted">of ${plural(told.nodes ?? 0, "node")}</span></p>`}
    ${(told.notes ?? []).map((/** @type {string} */ one) => html`<p class="muted">${one}</p>`)}
    ${[nodes, pods].every((one) => one.status.value.state === "ready") && html`<${BeforeAndAfter} nodes=${nodes.rows} pods=${pods.rows} told=${told} spec=${spec} />`}
    <${Changes} title="Waits" pods=${waits} /><${Changes} title="Lost: no controller creates it again" pods=${told.lost} />
    <${Changes} title="Preempted" pods=${told.preempted} /><${Changes} title="Moves" pods=${told.moves} /><${Changes} title="Gets a node" pods=${told.placed} /><${Changes} title="Stays on the drained node" pods=${told.stays} /><${Changes} title="Waits already" pods=${already} />
    ${spec.drain?.length === 1 && !spec.addNodes && !spec.pods && html`<${Drain} node=${spec.drain[0]} affected=${[told.moves, waits, told.lost].flat().filter(Boolean)} />`}`;
}

/** @param {string} pod */
const link = (pod) => {
  const [namespace, name] = pod.split("/");
  return name ? html`<${Link} to=${podLink(namespace, name)}>${pod}<//>` : pod;
};

/** @param {{title: string, pods: any[]}} props */
function Changes({ title, pods }) {
  if (!pods?.length) return null;
  return html`<h3>${title} (${pods.length})</h3><div class="table-box" tabindex="0" role="region" aria-label=${title}><table>
    <thead><tr><th scope="col">Pod</th><th scope="col">From</th><th scope="col">To</th><th scope="col" class="wide">Why</th></tr></thead>
    <tbody>${pods.slice(0, 500).map((one) => html`<tr><td>${one.cause === "new" ? one.pod : link(one.pod)}</td><td>${one.from ?? one.node ?? ""}</td><td>${one.to ?? ""}</td><td class="wide">${one.why ?? one.cause ?? ""}</td></tr>`)}</tbody></table></div>
    ${pods.length > 500 && html`<p class="muted">${pods.length - 500} further ones are not shown.</p>`}`;
}

/** Do what was asked: cordon the node and evict its pods. @param {{node: string, affected: any[]}} props */
function Drain({ node, affected }) {
  const mayCordon = useRight("patch", "nodes");
  const mayEvict = useRight("create", "pods/eviction");
  const [told, setTold] = useState(/** @type {string[]} */ ([]));
  if (!mayCordon || !mayEvict) return null;
  const drain = async () => {
    await merge(`/api/v1/nodes/${encodeURIComponent(node)}`, { spec: { unschedulable: true } });
    const listed = await json(`/api/v1/pods?fieldSelector=${encodeURIComponent(`spec.nodeName=${node}`)}`);
    /** @type {string[]} */
    const kept = [];
    for (const pod of listed.items) {
      const { namespace, name, ownerReferences } = pod.metadata;
      if (["Succeeded", "Failed"].includes(pod.status?.phase) || ownerReferences?.some((/** @type {any} */ one) => one.controller && ["DaemonSet", "Node"].includes(one.kind))) continue;
      try {
        await request(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/eviction`, {
          method: "POST", body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } },
        });
      } catch (error) {
        kept.push(`${namespace}/${name}: ${/** @type {Error} */ (error).message}`);
      }
    }
    setTold(kept.length ? kept : [`Node ${node} is cordoned, and its pods are evicted.`]);
  };
  return html`<p><${Action} danger label=${`Drain ${node} now`} act=${drain} question=${`Cordon ${node} and evict ${plural(affected.length, "pod")}, as shown? Disruption budgets are kept.`} /></p>
    ${told.map((one) => html`<p role="status">${one}</p>`)}`;
}
