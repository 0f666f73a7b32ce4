/** Queues and jobs: the tree of queues with their shares, and the groups that wait. */
import { json, request } from "../api.js";
import { Action, Empty, Link, Status, Table, amount, cores, duration, html, notReady, size, useNow, useRight, useView } from "../ui.js";

/** @param {string} name @param {number} value */
const inUnits = (name, value) => (name === "cpu" ? cores(Math.round(value * 1000)) : name === "memory" ? size(value) : `${value}`);

/** What a queue has beyond its deserved share. @param {any} queue */
function borrowed(queue) {
  const { deserved } = queue.spec ?? {};
  if (!deserved) return {};
  return Object.fromEntries(
    Object.entries(queue.status?.allocated ?? {})
      .filter(([name]) => deserved[name] !== undefined)
      .map(([name, has]) => [name, amount(has) - amount(deserved[name])])
      .filter(([, more]) => /** @type {number} */ (more) > 0)
      .map(([name, more]) => [name, inUnits(/** @type {string} */ (name), /** @type {number} */ (more))]),
  );
}

/** The planned start in the reason of a group, if there is one. @param {string} reason */
function plannedStart(reason) {
  const found = /planned to start at (\S+Z)/.exec(reason);
  return found ? Date.parse(found[1]) / 1000 : 0;
}

/** @param {Record<string, string> | undefined} amounts */
const told = (amounts) => Object.entries(amounts ?? {}).filter(([, value]) => value !== "0").map(([name, value]) => `${name} ${value}`).join(", ") || "–";

export function Queues() {
  const queues = useView("queues");
  const groups = useView("podgroups");
  const jobs = useView("batchjobs");
  const plain = useView("jobs");
  const now = useNow(5);
  return html`<h1>Queues and jobs</h1>
    <section aria-label="Queues"><h2>Queues</h2>${notReady(queues, "queues") ?? (queues.rows.size === 0 ? html`<${Empty} title="There are no queues"><p>Make one: <code>rota queue create research --capability cpu=8</code></p><//>` : html`<${QueueTree} queues=${[...queues.rows.values()]} />`)}</section>
    <section aria-label="Waiting groups"><h2>Groups that wait</h2>${notReady(groups, "pod groups") ?? html`<${Groups} groups=${[...groups.rows.values()]} now=${now} />`}</section>
    <section aria-label="Batch jobs"><h2>Batch jobs</h2>${notReady(jobs, "batch jobs") ?? (jobs.rows.size === 0 ? html`<${Empty} title="No batch job was submitted"><p><code>rota job run --help</code> has examples.</p><//>`
      : html`<${Table} caption="Batch jobs" height=${400} rows=${[...jobs.rows.values()]} keyOf=${(/** @type {any} */ r) => r.metadata.uid} columns=${[
        { id: "name", name: "Job", cell: (/** @type {any} */ r) => html`<${Link} to=${`pods?namespace=${r.metadata.namespace}&q=volcano.sh/job-name=${r.metadata.name}`}>${r.metadata.namespace}/${r.metadata.name}<//>` },
        { id: "status", name: "Status", cell: (/** @type {any} */ r) => html`<${Status} status=${r.status?.state?.phase ?? "Pending"} />` },
        { id: "queue", name: "Queue", cell: (/** @type {any} */ r) => r.spec?.queue ?? "" },
        { id: "pods", name: "Pods", cell: (/** @type {any} */ r) => `${r.status?.running ?? 0} running, ${r.status?.succeeded ?? 0} done, ${r.status?.failed ?? 0} failed` },
        { id: "age", name: "Age", num: true, cell: (/** @type {any} */ r) => duration(now - Date.parse(r.metadata.creationTimestamp) / 1000) },
      ]} />`)}</section>
    <section aria-label="Jobs"><h2>Jobs</h2>${notReady(plain, "jobs") ?? (plain.rows.size === 0 ? html`<${Empty} title="There are no Jobs"><p><code>kubectl create job hello --image=none -- echo hi</code></p><//>`
      : html`<${Table} caption="Jobs" height=${400} rows=${[...plain.rows.values()]} keyOf=${(/** @type {any} */ r) => r.metadata.uid} columns=${[
        { id: "name", name: "Job", cell: (/** @type {any} */ r) => html`<${Link} to=${`pods?namespace=${r.metadata.namespace}&q=batch.kubernetes.io/job-name=${r.metadata.name}`}>${r.metadata.namespace}/${r.metadata.name}<//>` },
        { id: "status", name: "Status", cell: (/** @type {any} */ r) => html`<${Status} status=${jobState(r)} />` },
        { id: "done", name: "Done", num: true, cell: (/** @type {any} */ r) => `${r.status?.succeeded ?? 0}/${r.spec?.completions ?? 1}` },
        { id: "age", name: "Age", num: true, cell: (/** @type {any} */ r) => duration(now - Date.parse(r.metadata.creationTimestamp) / 1000) },
        { id: "act", name: "", cell: (/** @type {any} */ r) => html`<${SuspendJob} job=${r} />` },
      ]} />`)}</section>`;
}

/** @param {any} job */
const jobState = (job) =>
  job.status?.conditions?.find((/** @type {any} */ one) => one.status === "True" && ["Complete", "Failed", "Suspended"].includes(one.type))?.type.replace("Complete", "Completed") ?? (job.status?.active ? "Running" : "Pending");

/** @param {{job: any}} props */
function SuspendJob({ job }) {
  const may = useRight("patch", "jobs", job.metadata.namespace, "batch");
  if (!may || ["Completed", "Failed"].includes(jobState(job))) return null;
  const suspended = Boolean(job.spec?.suspend);
  const { namespace, name } = job.metadata;
  return html`<${Action} label=${suspended ? "Resume" : "Suspend"} question=${suspended ? `Create the pods of job ${name} again?` : `Suspend job ${name}? Its pods are deleted.`}
    act=${() => json(`/apis/batch/v1/namespaces/${encodeURIComponent(namespace)}/jobs/${encodeURIComponent(name)}`, { method: "PATCH", type: "application/merge-patch+json", body: { spec: { suspend: !suspended } } })} />`;
}

/** @param {{queues: any[]}} props */
function QueueTree({ queues }) {
  const known = new Set(queues.map((one) => one.metadata.name));
  const parentOf = (/** @type {any} */ one) => (one.spec?.parent && known.has(one.spec.parent) ? one.spec.parent : "");
  /** @type {[number, any][]} */
  const rows = [];
  const add = (/** @type {string} */ parent, /** @type {number} */ depth) => {
    for (const one of queues.filter((queue) => parentOf(queue) === parent).sort((a, b) => a.metadata.name.localeCompare(b.metadata.name))) {
      rows.push([depth, one]);
      if (depth < 20) add(one.metadata.name, depth + 1);
    }
  };
  add("", 0);
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Tree of queues"><table>
    <thead><tr>${["Queue", "State", "Weight", "Allocated", "Deserved", "Borrowed", "Guaranteed", "Limit", "Groups"].map((one) => html`<th scope="col">${one}</th>`)}</tr></thead>
    <tbody>${rows.map(([depth, one]) => html`<tr><th scope="row" style=${{ paddingLeft: `${8 + depth * 18}px` }}>${depth ? "└ " : ""}${one.metadata.name}</th>
      <td><${Status} status=${one.status?.state ?? "Open"} /></td><td class="num">${one.spec?.weight ?? 1}</td><td>${told(one.status?.allocated)}</td>
      <td>${told(one.spec?.deserved)}</td><td>${told(borrowed(one))}</td><td>${told(one.spec?.guarantee?.resource)}</td><td>${told(one.spec?.capability)}</td>
      <td>${one.status?.running ?? 0} running, ${one.status?.pending ?? 0} pending, ${one.status?.inqueue ?? 0} in queue</td></tr>`)}</tbody></table></div>`;
}

/** @param {{groups: any[], now: number}} props */
function Groups({ groups, now }) {
  const waiting = groups.filter((one) => ["Pending", "Inqueue", undefined].includes(one.status?.phase));
  if (!waiting.length) return html`<${Empty} title="No group waits" />`;
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Groups that wait"><table>
    <thead><tr>${["Group", "Queue", "Phase", "Needs", "Waits", "Starts", "Because"].map((one) => html`<th scope="col">${one}</th>`)}</tr></thead>
    <tbody>${waiting.map((one) => {
      const why = one.status?.conditions?.filter((/** @type {any} */ c) => c.type === "Unschedulable" && c.status === "True").at(-1);
      const start = plannedStart(why?.message ?? "");
      return html`<tr key=${one.metadata.uid}><th scope="row">${one.metadata.namespace}/${one.metadata.name}</th><td>${one.spec?.queue ?? "default"}</td>
        <td><${Status} status=${one.status?.phase ?? "Pending"} /></td><td>${one.spec?.minMember ?? 1} pods</td>
        <td class="num">${duration(now - Date.parse(one.metadata.creationTimestamp) / 1000)}</td>
        <td class="num">${!start ? "not planned" : html`<time datetime=${new Date(start * 1000).toISOString()} title=${new Date(start * 1000).toLocaleString()}>${start > now ? `within ${duration(start - now)}` : "now"}</time>`}</td><td class="wide">${why?.message ?? "it has not been looked at yet"}</td></tr>`;
    })}</tbody></table></div>`;
}
