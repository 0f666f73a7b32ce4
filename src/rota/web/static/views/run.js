/**
 * One run of a pipeline: its steps as a tree with a Gantt chart, and the log of a step beside it. The rows are the steps
 * of the pipeline in its own order, from the beginning of the run: no row moves when a step begins or fails.
 */
import { merge } from "../api.js";
import { Action, Empty, Link, Status, duration, html, notReady, place, plural, useNow, useRight, useView } from "../ui.js";
import { RUNS, seconds } from "./pipelines.js";
import { Log, useObjects } from "./pod.js";

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
  const own = [...all.rows.values()].filter((one) => (one.metadata.ownerReferences ?? []).some((/** @type {any} */ o) => o.uid === run.metadata.uid) || one.spec?.run === name);
  const steps = stepsOf(run, own);
  const wanted = place.value.query.get("step") ?? "";
  const instances = steps.flatMap((one) => one.instances);
  const chosen = steps.find((one) => one.name === wanted) ?? steps.find((one) => one.instances.some((/** @type {any} */ s) => s.metadata.name === wanted))
    ?? steps.find((one) => one.phase === "Failed") ?? steps.filter((one) => one.instances.length).at(-1);
  const from = Math.min(...instances.map((one) => seconds(one.metadata.creationTimestamp)), seconds(run.metadata.creationTimestamp));
  const until = Math.max(...instances.map((one) => endOf(one, now)), from + 1);
  return html`${title}<div class="row between"><h1>${name} <${Status} status=${run.status?.phase ?? "Waiting"} /></h1>
    <${RunActions} run=${run} /></div>
    <p class="told">${run.status?.message ?? ""}</p>
    <div class="columns wide-left"><section aria-label="Steps"><h2>Steps</h2>
      ${notReady(all, "steps") ?? (steps.length === 0 ? html`<${Empty} title="The run has not begun" />` : html`<div class="table-box" tabindex="0" role="region" aria-label="Steps of the run"><table class="gantt">
        <thead><tr><th scope="col">Step</th><th scope="col">Status</th><th scope="col" class="num">Took</th><th scope="col" class="wide">Time</th></tr></thead>
        <tbody>${steps.map((one) => html`<tr key=${one.name} class=${one === chosen ? "chosen" : ""}>
          <th scope="row" style=${{ paddingLeft: `${8 + 16 * one.depth}px` }}><${Link} to=${`pipelines/${namespace}/${name}?step=${one.name}`}>${one.name}<//></th>
          <td><${Status} status=${one.phase} />${one.instances.length > 1 && html` <span class="muted small">${one.done} of ${one.instances.length}</span>`}</td>
          <td class="num">${one.instances.length ? duration(Math.max(...one.instances.map((s) => endOf(s, now))) - Math.min(...one.instances.map(beginOf))) : ""}</td>
          <td class="wide"><div class="lane">${one.instances.map((s) => html`<i key=${s.metadata.uid} class=${`lane-${s.status?.phase ?? "Waiting"}`} style=${{ left: `${((beginOf(s) - from) / (until - from)) * 100}%`, width: `${Math.max(0.5, ((endOf(s, now) - beginOf(s)) / (until - from)) * 100)}%` }}></i>`)}</div></td></tr>`)}</tbody></table></div>`)}
    </section><section aria-label="Step"><h2>${chosen ? `Log of ${chosen.name}` : "Log"}</h2>
      ${chosen && html`<${Step} namespace=${namespace} run=${name} step=${chosen} wanted=${wanted} key=${chosen.name} />`}
    </section></div>`;
}

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {number} depth How deep it is in the graph.
 * @property {any[]} instances Its step runs, one for each item.
 * @property {string} phase
 * @property {number} done
 */

/** The steps of the pipeline in its order. @param {any} run @param {any[]} own @returns {Row[]} */
function stepsOf(run, own) {
  const spec = run.status?.spec ?? run.spec?.pipelineSpec ?? {};
  const named = [...(spec.steps ?? []), ...(spec.onExit ?? [])];
  const depths = depthsOf(named);
  const known = new Set(named.map((one) => one.name));
  // Step runs of a pipeline that cannot be read come last, by name.
  const others = [...new Set(own.map((one) => one.spec?.step ?? one.metadata.name))].filter((one) => !known.has(one)).sort();
  return [...named.map((one) => one.name), ...others].map((name) => {
    const instances = own.filter((one) => (one.spec?.step ?? one.metadata.name) === name).sort((a, b) => (a.spec?.index ?? 0) - (b.spec?.index ?? 0));
    return { name, depth: depths.get(name) ?? 0, instances, phase: phaseOf(instances), done: instances.filter((one) => ["Succeeded", "Cached", "Skipped"].includes(one.status?.phase)).length };
  });
}

/** @param {any[]} instances */
function phaseOf(instances) {
  const phases = instances.map((one) => one.status?.phase ?? "Waiting");
  for (const one of ["Failed", "Running", "Waiting", "Cancelled"]) if (phases.includes(one)) return one;
  return phases[0] ?? "Waiting";
}

/** The step runs of one step, and the log of one of them. @param {{namespace: string, run: string, step: Row, wanted: string}} props */
function Step({ namespace, run, step, wanted }) {
  const one = step.instances.find((s) => s.metadata.name === wanted) ?? step.instances.find((s) => s.status?.phase === "Failed") ?? step.instances[0];
  if (!one) return html`<${Empty} title="This step has not begun"><p>It waits for the steps before it.</p><//>`;
  return html`${step.instances.length > 1 && html`<details open=${step.instances.length <= 20}><summary>${plural(step.instances.length, "item")}</summary><p class="items">${step.instances.map((s) => html`<${Link} key=${s.metadata.uid}
      to=${`pipelines/${namespace}/${run}?step=${s.metadata.name}`} aria-current=${s === one ? "true" : undefined}>${s.spec?.index ?? 0} <${Status} status=${s.status?.phase ?? "Waiting"} /><//> `)}</p></details>`}
    ${one.status?.message && html`<p class="problem">${one.status.message}</p>`}
    <${StepLog} namespace=${namespace} step=${one} key=${one.metadata.uid} />`;
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
  const suspended = Boolean(run.spec?.suspend);
  return html`<div class="row"><${Action} label=${suspended ? "Resume" : "Suspend"} act=${change({ suspend: suspended ? null : true })}
      question=${suspended ? `Begin steps of ${name} again?` : `Begin no further steps of ${name}? Steps that run go on.`} />
    <${Action} danger label="Cancel" question=${`Cancel ${name}? Its running steps are stopped.`} act=${change({ cancel: true })} /></div>`;
}

/** @param {any} step */
const beginOf = (step) => seconds(step.status?.startedAt ?? step.metadata.creationTimestamp);
/** @param {any} step @param {number} now */
const endOf = (step, now) => seconds(step.status?.finishedAt ?? step.status?.completedAt) || (["Succeeded", "Failed", "Skipped", "Cached", "Cancelled"].includes(step.status?.phase) ? beginOf(step) : now);

/** How deep each step is in the graph. @param {any[]} steps @returns {Map<string, number>} */
function depthsOf(steps) {
  const byName = new Map(steps.map((one) => [one.name, one]));
  const depths = new Map();
  const depth = (/** @type {string} */ name) => {
    if (depths.has(name)) return depths.get(name);
    depths.set(name, 0);
    const one = byName.get(name);
    const before = new Set(one?.dependsOn ?? []);
    for (const found of JSON.stringify(one ?? {}).matchAll(/steps\.([\w-]+)\./g)) if (byName.has(found[1])) before.add(found[1]);
    depths.set(name, before.size ? 1 + Math.max(...[...before].map(depth)) : 0);
    return depths.get(name);
  };
  for (const one of steps) depth(one.name);
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
