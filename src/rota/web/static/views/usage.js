/**
 * What a pod uses, over time. The API measures when it is asked and keeps nothing, so the page asks while it shows the pod,
 * and remembers what it saw of the last pods until it is closed.
 */
import { useEffect, useState } from "preact/hooks";
import { ApiError, json } from "../api.js";
import { amount, cores, html, size } from "../ui.js";
import { Plot } from "./plot.js";

/** Workers are asked at most every ten seconds; a sample that was seen already is not taken twice. */
const EVERY_MS = 5000;
const MOST_SAMPLES = 720;
const MOST_PODS = 50;
/** Time, milli-cores, bytes; by the uid of the pod. @type {Map<string, number[][]>} */
const seen = new Map();

/** @param {any} metrics @returns {number[]} */
function sampleOf(metrics) {
  const sum = (/** @type {string} */ name) => metrics.containers.reduce((/** @type {number} */ total, /** @type {any} */ one) => total + amount(one.usage[name]), 0);
  return [Date.parse(metrics.timestamp) / 1000, Math.round(sum("cpu") * 1000), sum("memory")];
}

/** The samples with a new one, if it is new. @param {string} uid @param {number[]} sample */
function kept(uid, sample) {
  const before = seen.get(uid) ?? [];
  const samples = before.at(-1)?.[0] === sample[0] ? before : [...before.slice(1 - MOST_SAMPLES), sample];
  seen.delete(uid);
  seen.set(uid, samples);
  if (seen.size > MOST_PODS) seen.delete([...seen.keys()][0]);
  return samples;
}

/** What is requested of a resource, by all containers. @param {any} pod @param {string} name */
const requested = (pod, name) => pod.spec.containers.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + amount(one.resources?.requests?.[name]), 0);

/** @param {{pod: any}} props */
export function Usage({ pod }) {
  const { namespace, name, uid } = pod.metadata;
  const [samples, setSamples] = useState(seen.get(uid) ?? []);
  const [problem, setProblem] = useState("");
  const running = pod.status?.phase === "Running";
  useEffect(() => {
    if (!running) return () => {};
    const ending = new AbortController();
    /** @type {number | undefined} */
    let timer;
    const measure = async () => {
      let again = EVERY_MS;
      // Nobody looks at a hidden page.
      if (document.hidden) return void (timer = setTimeout(measure, again));
      try {
        const told = await json(`/apis/metrics.k8s.io/v1beta1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`, { signal: ending.signal });
        setSamples(kept(uid, sampleOf(told)));
        setProblem("");
      } catch (error) {
        if (ending.signal.aborted) return;
        const { code, message } = /** @type {ApiError} */ (error);
        // A pod that has just begun is not measured yet.
        if (code === 404 || code === 403) again = 3 * EVERY_MS;
        setProblem(code === 403 ? message : "it is not measured yet, or this cluster does not measure pods");
      }
      timer = setTimeout(measure, again);
    };
    measure();
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [uid, running]);
  if (!samples.length) return running ? html`<h2>Use</h2><p class="muted" role="status">${problem ? `Not shown: ${problem}` : "Measuring …"}</p>` : null;
  const asked = ["cpu", "memory"].map((one) => requested(pod, one));
  // The time before the first sample is empty, so that the axis has at least a minute.
  const [from, until] = [samples[0][0], samples[samples.length - 1][0]];
  /** @type {any[][]} */
  const padded = until - from < 60 ? [[until - 60, null, null], ...samples] : samples;
  const drawn = padded.map((one) => [...one, asked[0] * 1000 || null, asked[1] || null]);
  const series = (/** @type {number} */ at) => [["used", at, "--accent"], ...(asked[at - 1] ? [["requested", at + 2, "--muted"]] : [])];
  return html`<section aria-label="Use over time"><h2>Use <span class="muted small">since ${new Date(samples[0][0] * 1000).toLocaleTimeString()}, when this page first showed the pod</span></h2>
    <div class="plots"><${Plot} title="Processor, cores" samples=${drawn} series=${series(1)} say=${cores} />
      <${Plot} title="Memory" samples=${drawn} series=${series(2)} say=${size} /></div></section>`;
}
