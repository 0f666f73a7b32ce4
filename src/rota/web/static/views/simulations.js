/**
 * Reports of `rota simulate --json` beside each other. The page reads the files itself; nothing of them is sent anywhere.
 * What is shown can be saved as one HTML file that needs no network.
 */
import { useRef, useState } from "preact/hooks";
import { BASE, Empty, html, plural, save } from "../ui.js";

const COLOURS = ["--accent", "--waits", "--bad", "--good", "--muted"];
/** Entries of a result that are not figures. */
const OTHER = ["seeds"];

/** @typedef {{file: string, policy: string, trace: string, seeds: number[], figures: Record<string, number>, sd: Record<string, number>, curves: Record<string, any>}} Result */

/** The results of a report; an Error if it is none. @param {string} file @param {string} text @returns {Result[]} */
function resultsOf(file, text) {
  /** @type {any} */
  let report;
  try {
    report = JSON.parse(text);
  } catch {
    throw new Error(`${file} is not JSON: make it with rota simulate --json`);
  }
  if (!Array.isArray(report?.results)) throw new Error(`${file} has no results: make it with rota simulate --json`);
  return report.results.map((/** @type {any} */ one) => ({
    file,
    policy: String(one.policy),
    trace: String(one.trace),
    seeds: one.seeds ?? [],
    figures: Object.fromEntries(Object.entries(one).filter(([name, value]) => typeof value === "number" && !OTHER.includes(name))),
    sd: one.sd ?? {},
    curves: one.curves ?? {},
  }));
}

/** A page that shows a part of this one, without scripts. @param {HTMLElement} part */
async function pageOf(part) {
  const styles = await (await fetch(`${BASE}assets/style.css`)).text();
  const head = `<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Simulations</title><style>${styles} body { padding: 1rem; }</style>`;
  // The serializer escapes every text of a report.
  const body = new XMLSerializer().serializeToString(part);
  return new Blob([`<!doctype html>\n<html lang="en"><head>${head}</head><body><h1>Simulations</h1>${body}</body></html>\n`], { type: "text/html" });
}

export function Simulations() {
  const shown = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [results, setResults] = useState(/** @type {Result[]} */ ([]));
  const [problems, setProblems] = useState(/** @type {string[]} */ ([]));
  const open = async (/** @type {any} */ event) => {
    /** @type {Result[]} */
    const read = [];
    /** @type {string[]} */
    const wrong = [];
    for (const file of event.target.files) {
      try {
        read.push(...resultsOf(file.name, await file.text()));
      } catch (error) {
        wrong.push(/** @type {Error} */ (error).message);
      }
    }
    setResults([...results.filter((one) => !read.some((other) => other.file === one.file)), ...read]);
    setProblems(wrong);
    event.target.value = "";
  };
  const figures = [...new Set(results.flatMap((one) => Object.keys(one.figures)))];
  const curves = [...new Set(results.flatMap((one) => Object.keys(one.curves)))];
  return html`<h1>Simulations</h1>
    <div class="row filters"><label>Open reports <input type="file" multiple accept=".json,application/json" onChange=${open} /></label>
      ${results.length > 0 && html`<button onClick=${() => setResults([])}>Close all</button>
        <button onClick=${async () => save("simulations.html", await pageOf(/** @type {HTMLElement} */ (shown.current)))}>Save as one HTML file</button>`}<span class="muted" role="status">${plural(results.length, "result")}</span></div>
    ${problems.map((one) => html`<p class="problem" role="alert">${one}</p>`)}
    ${results.length === 0
      ? html`<${Empty} title="No report is open"><p><code>rota simulate week.jsonl.gz --policy default,mine.yaml --seeds 5 --json > report.json</code></p><p>Reports stay in this browser.</p><//>`
      : html`<div ref=${shown}><section aria-label="Figures"><h2>Figures</h2><div class="table-box" tabindex="0" role="region" aria-label="Figures of all reports"><table>
        <thead><tr><th scope="col">Figure</th>${results.map((one, at) => html`<th scope="col" class="num"><${Swatch} at=${at} />${one.policy}</th>`)}</tr>
          <tr><th scope="col">Trace, report</th>${results.map((one) => html`<th scope="col" class="num muted">${one.trace}, ${one.file}, ${plural(one.seeds.length, "seed")}</th>`)}</tr></thead>
        <tbody>${figures.map((name) => html`<tr key=${name}><th scope="row">${name.replaceAll("_", " ")}</th>${results.map((one) => html`<td class="num">${one.figures[name] === undefined ? "–" : one.figures[name].toLocaleString("en", { maximumFractionDigits: 3 })}
          ${one.sd[name] ? html`<span class="muted"> ± ${one.sd[name].toLocaleString("en", { maximumFractionDigits: 3 })}</span>` : ""}</td>`)}</tr>`)}</tbody></table></div>
        <p class="muted small">Means over seeds, ± one standard deviation.</p></section>
      <section aria-label="Curves"><h2>Curves of the first seed</h2><div class="plots">${curves.map((name) => html`<${Curve} key=${name} name=${name} results=${results} />`)}</div></section></div>`}`;
}

/** @param {{at: number}} props */
const Swatch = ({ at }) => html`<span class="legend-inline" aria-hidden="true"><i style=${{ background: `var(${COLOURS[at % COLOURS.length]})` }}></i></span>`;

/** One curve of every report that has it, on common axes. @param {{name: string, results: Result[]}} props */
function Curve({ name, results }) {
  const own = results.map((one, at) => ({ at, curve: one.curves[name], policy: one.policy })).filter((one) => one.curve?.x?.length);
  if (!own.length) return null;
  const xs = own.flatMap(({ curve }) => [curve.x[0], curve.x.at(-1)]);
  const most = own.reduce((high, { curve }) => curve.y.reduce((/** @type {number} */ a, /** @type {number} */ b) => Math.max(a, b), high), 0) || 1;
  const [from, until] = [Math.min(...xs), Math.max(...xs)];
  const path = (/** @type {any} */ curve) => curve.x.map((/** @type {number} */ x, /** @type {number} */ at) => `${(((x - from) / (until - from || 1)) * 300).toFixed(1)},${(100 - (curve.y[at] / most) * 96).toFixed(1)}`).join(" ");
  return html`<figure class="card"><figcaption>${name.replaceAll("_", " ")} <span class="muted small">${own[0].curve.up}, at most ${most.toLocaleString("en", { maximumFractionDigits: 2 })}; across: ${own[0].curve.across}</span></figcaption>
    <svg class="curve" viewBox="0 0 300 102" preserveAspectRatio="none" role="img" aria-label=${`${name} of ${own.map((one) => one.policy).join(", ")}`}>
      ${own.map(({ at, curve }) => html`<polyline points=${path(curve)} fill="none" stroke=${`var(${COLOURS[at % COLOURS.length]})`} stroke-width="1.5" vector-effect="non-scaling-stroke" />`)}</svg></figure>`;
}
