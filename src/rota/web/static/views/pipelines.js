/** Pipelines: runs, and one run as a tree of steps, a Gantt chart and the log of a step beside it. */
import { useState } from "preact/hooks";
import { json, merge } from "../api.js";
import { Action, Empty, Link, Status, Table, duration, html, notReady, place, setQuery, useNow, useRight, useView } from "../ui.js";
import { Log, useObjects } from "./pod.js";

const seconds = (/** @type {string | undefined} */ when) => (when ? Date.parse(when) / 1000 : 0);
const RUNS = "/apis/rota.dev/v1alpha1/namespaces";

export function Pipelines() {
  const namespace = place.value.query.get("namespace") ?? "";
  const runs = useView("pipelineruns", namespace);
  const pipelines = useView("pipelines", namespace);
  const now = useNow(2);
  const other = notReady(runs, "pipelines");
  const rows = [...runs.rows.values()];
  return html`<div class="row between"><h1>Pipelines</h1></div>
    <div class="row filters"><label>Namespace <input value=${namespace} placeholder="all" onChange=${(/** @type {any} */ e) => setQuery({ namespace: e.target.value.trim() })} /></label></div>
    ${other ?? html`
      ${pipelines.rows.size > 0 && html`<h2>Start one</h2><ul class="plain">${[...pipelines.rows.values()].map((one) => html`<li key=${one.metadata.uid}><${Start} pipeline=${one} /></li>`)}</ul>`}
      <h2>Runs</h2>
      ${rows.length === 0 ? html`<${Empty} title="No pipeline has run yet"><p>Write one and run it: <code>rota pipeline run report.yaml --watch</code></p><//>`
        : html`<${Table} caption="Runs of pipelines" rows=${rows} sort=${place.value.query.get("sort") ?? "-started"} height=${560} keyOf=${(/** @type {any} */ r) => r.metadata.uid} columns=${[
          { id: "name", name: "Run", cell: (/** @type {any} */ r) => html`<${Link} to=${`pipelines/${r.metadata.namespace}/${r.metadata.name}`}>${r.metadata.namespace}/${r.metadata.name}<//>`, sort: (/** @type {any} */ r) => r.metadata.name },
          { id: "status", name: "Status", cell: (/** @type {any} */ r) => html`<${Status} status=${r.status?.phase ?? "Waiting"} />`, sort: (/** @type {any} */ r) => r.status?.phase ?? "" },
          { id: "started", name: "Started", num: true, cell: (/** @type {any} */ r) => `${duration(now - seconds(r.metadata.creationTimestamp))} ago`, sort: (/** @type {any} */ r) => r.metadata.creationTimestamp },
          { id: "took", name: "Took", num: true, cell: (/** @type {any} */ r) => took(r, now) },
          { id: "message", name: "Message", wide: true, cell: (/** @type {any} */ r) => r.status?.message ?? "" },
        ]} />`}`}`;
}

/** @param {any} run @param {number} now */
function took(run, now) {
  const begun = seconds(run.status?.startedAt ?? run.metadata.creationTimestamp);
  return duration((seconds(run.status?.finishedAt ?? run.status?.completedAt) || now) - begun);
}

/** A form with the parameters of a pipeline. @param {{pipeline: any}} props */
function Start({ pipeline }) {
  const { namespace, name } = pipeline.metadata;
  const parameters = pipeline.spec?.parameters ?? [];
  const [values, setValues] = useState(/** @type {Record<string, string>} */ ({}));
  const [told, setTold] = useState("");
  const may = useRight("create", "pipelineruns", namespace, "rota.dev");
  if (!may) return html`<b>${namespace}/${name}</b>`;
  const start = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const given = Object.entries(values).filter(([, value]) => value !== "").map(([key, value]) => ({ name: key, value }));
    try {
      const made = await json(`${RUNS}/${encodeURIComponent(namespace)}/pipelineruns`, {
        method: "POST",
        body: { apiVersion: "rota.dev/v1alpha1", kind: "PipelineRun", metadata: { generateName: `${name}-` }, spec: { pipeline: name, ...(given.length ? { parameters: given } : {}) } },
      });
      setTold(`started ${made.metadata.name}`);
    } catch (error) {
      setTold(/** @type {Error} */ (error).message);
    }
  };
  return html`<form class="row start" onSubmit=${start}><b>${namespace}/${name}</b>
    ${parameters.map((/** @type {any} */ one) => html`<label>${one.name} <input placeholder=${one.default ?? ""} required=${one.default === undefined} onInput=${(/** @type {any} */ e) => setValues({ ...values, [one.name]: e.target.value })} /></label>`)}
    <button>Start</button> <span class="muted" role="status">${told}</span></form>`;
}

/** @param {{namespace: string, name: string}} props */
export function RunPage({ namespace, name }) {
  const [runs, problem] = useObjects(`${RUNS}/${encodeURIComponent(namespace)}/pipelineruns`, `fieldSelector=metadata.name=${encodeURIComponent(name)}`);
  const all = useView("stepruns", namespace);
  const now = useNow(1);
  const title = html`<p class="crumbs"><${Link} to="pipelines">Pipelines<//> / ${namespace}</p>`;
  if (problem) return html`${title}<${Empty} title="This run cannot be shown"><p>${problem.message}</p><//>`;
  if (!runs) return html`${title}<h1>${name}</h1><${Empty} title="Reading the run …" />`;
  const run = runs[0];
  if (!run) return html`${title}<h1>${name}</h1><${Empty} title="There is no such run" />`;
  const steps = [...all.rows.values()].filter((one) => (one.metadata.ownerReferences ?? []).some((/** @type {any} */ o) => o.uid === run.metadata.uid) || one.spec?.run === name)
    .sort((a, b) => seconds(a.metadata.creationTimestamp) - seconds(b.metadata.creationTimestamp) || a.metadata.name.localeCompare(b.metadata.name));
  const chosen = steps.find((one) => one.metadata.name === place.value.query.get("step")) ?? steps.find((one) => one.status?.phase === "Failed") ?? steps.at(-1);
  const depths = depthsOf(run, steps);
  const from = Math.min(...steps.map((one) => seconds(one.metadata.creationTimestamp)), seconds(run.metadata.creationTimestamp));
  const until = Math.max(...steps.map((one) => endOf(one, now)), from + 1);
  return html`${title}<div class="row between"><h1>${name} <${Status} status=${run.status?.phase ?? "Waiting"} /></h1>
    <${RunActions} run=${run} /></div>
    ${run.status?.message && html`<p>${run.status.message}</p>`}
    <div class="columns wide-left"><section aria-label="Steps"><h2>Steps</h2>
      ${notReady(all, "steps") ?? (steps.length === 0 ? html`<${Empty} title="No step has begun" />` : html`<div class="table-box" tabindex="0" role="region" aria-label="Steps of the run"><table class="gantt">
        <thead><tr><th scope="col">Step</th><th scope="col">Status</th><th scope="col" class="num">Took</th><th scope="col" class="wide">Time</th></tr></thead>
        <tbody>${steps.map((one) => html`<tr class=${one === chosen ? "chosen" : ""}>
          <th scope="row" style=${{ paddingLeft: `${8 + 16 * (depths.get(one.spec?.step) ?? 0)}px` }}>
            <${Link} to=${`pipelines/${namespace}/${name}?step=${one.metadata.name}`}>${one.spec?.step ?? one.metadata.name}${one.spec?.index !== undefined ? ` [${one.spec.index}]` : ""}<//></th>
          <td><${Status} status=${one.status?.phase ?? "Waiting"} /></td>
          <td class="num">${duration(endOf(one, now) - beginOf(one))}</td>
          <td class="wide"><div class="lane"><i class=${`lane-${one.status?.phase ?? "Waiting"}`} style=${{ left: `${((beginOf(one) - from) / (until - from)) * 100}%`, width: `${Math.max(0.5, ((endOf(one, now) - beginOf(one)) / (until - from)) * 100)}%` }}></i></div></td></tr>`)}</tbody></table></div>`)}
    </section><section aria-label="Step"><h2>${chosen ? `Log of ${chosen.spec?.step ?? chosen.metadata.name}` : "Log"}</h2>
      ${chosen?.status?.message && html`<p class="problem">${chosen.status.message}</p>`}
      ${chosen && html`<${StepLog} namespace=${namespace} step=${chosen} key=${chosen.metadata.uid} />`}
    </section></div>`;
}

/** @param {{run: any}} props */
function RunActions({ run }) {
  const { namespace, name } = run.metadata;
  const may = useRight("patch", "pipelineruns", namespace, "rota.dev");
  if (!may) return null;
  const change = (/** @type {object} */ spec) => () => merge(`${RUNS}/${encodeURIComponent(namespace)}/pipelineruns/${encodeURIComponent(name)}`, { spec });
  const phase = run.status?.phase ?? "Waiting";
  if (["Failed", "Cancelled"].includes(phase))
    return html`<${Action} label="Retry" question=${`Run the failed steps of ${name} again? Steps that succeeded are kept.`} act=${change({ retry: (run.spec?.retry ?? 0) + 1, cancel: null })} />`;
  if (phase === "Succeeded") return null;
  return html`<${Action} danger label="Cancel" question=${`Cancel ${name}? Its running steps are stopped.`} act=${change({ cancel: true })} />`;
}

/** @param {any} step */
const beginOf = (step) => seconds(step.status?.startedAt ?? step.metadata.creationTimestamp);
/** @param {any} step @param {number} now */
const endOf = (step, now) => seconds(step.status?.finishedAt ?? step.status?.completedAt) || (["Succeeded", "Failed", "Skipped", "Cancelled"].includes(step.status?.phase) ? beginOf(step) : now);

/** How deep each step is in the graph. @param {any} run @param {any[]} steps @returns {Map<string, number>} */
function depthsOf(run, steps) {
  const spec = run.status?.spec?.steps ?? run.spec?.steps ?? run.spec?.inline?.steps ?? [];
  const byName = new Map(spec.map((/** @type {any} */ one) => [one.name, one]));
  const depths = new Map();
  const depth = (/** @type {string} */ name) => {
    if (depths.has(name)) return depths.get(name);
    depths.set(name, 0);
    const one = /** @type {any} */ (byName.get(name));
    const before = new Set(one?.dependsOn ?? []);
    for (const found of JSON.stringify(one ?? {}).matchAll(/steps\.([\w-]+)\./g)) before.add(found[1]);
    depths.set(name, before.size ? 1 + Math.max(...[...before].map(depth)) : 0);
    return depths.get(name);
  };
  for (const one of steps) depth(one.spec?.step);
  return depths;
}

/** @param {{namespace: string, step: any}} props */
function StepLog({ namespace, step }) {
  const labels = Object.entries(step.metadata.labels ?? {}).filter(([key]) => /run|step/.test(key)).map(([key, value]) => `${key}=${value}`);
  const [found, problem] = useObjects(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`, `labelSelector=${encodeURIComponent(labels.join(","))}`);
  const owns = (/** @type {any} */ pod) => (pod.metadata.ownerReferences ?? []).some((/** @type {any} */ one) => one.uid === step.metadata.uid || one.kind === "Job");
  const pods = found?.filter(owns);
  if (problem) return html`<${Empty} title="The pod cannot be shown"><p>${problem.message}</p><//>`;
  if (!pods) return html`<${Empty} title="Looking for its pod …" />`;
  const pod = pods.sort((a, b) => b.metadata.creationTimestamp.localeCompare(a.metadata.creationTimestamp))[0];
  return pod ? html`<${Log} pod=${pod} key=${pod.metadata.uid} />` : html`<${Empty} title="Its pod is gone"><p>A step that was skipped never had one.</p><//>`;
}
