/** Pipelines: all runs, and a form that starts one. */
import { useState } from "preact/hooks";
import { json } from "../api.js";
import { Empty, Link, Status, Table, duration, html, notReady, place, setQuery, useNow, useRight, useView } from "../ui.js";

export const seconds = (/** @type {string | undefined} */ when) => (when ? Date.parse(when) / 1000 : 0);
export const RUNS = "/apis/rota.dev/v1alpha1/namespaces";

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
