/** A plot of values over time. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { html } from "../ui.js";

/** @param {{title: string, samples: number[][], series: [string, number, string][], say?: (value: number) => string}} props */
export function Plot({ title, samples, series, say = String }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const data = [samples.map((one) => one[0]), ...series.map(([, at]) => samples.map((one) => one[at]))];
  useEffect(() => {
    const here = /** @type {HTMLDivElement} */ (place.current);
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot(
      {
        width: here.clientWidth || 320,
        height: 150,
        legend: { show: false },
        cursor: { y: false },
        scales: { y: { range: (_, low, high) => [0, (high || 1) * 1.1] } },
        series: [{}, ...series.map(([label, , name]) => ({ label, stroke: colour(name), width: 1.5, points: { show: samples.length < 3 } }))],
        axes: [axis, { ...axis, size: 56, values: (/** @type {any} */ _, /** @type {number[]} */ some) => some.map(say) }],
      },
      /** @type {any} */ (data),
      here,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: here.clientWidth, height: 150 }));
    watch.observe(here);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(/** @type {any} */ (data)), [samples]);
  const lastOf = (/** @type {number} */ at) => samples.findLast((one) => one[at] !== null)?.[at];
  return html`<figure class="card"><figcaption>${title}
      <span class="legend">${series.map(([label, at, name]) => html`<span><i style=${{ background: `var(${name})` }}></i>${label} <b class="num">${lastOf(at) === undefined ? "–" : say(/** @type {number} */ (lastOf(at)))}</b></span>`)}</span></figcaption>
    <div ref=${place} aria-hidden="true"></div></figure>`;
}
