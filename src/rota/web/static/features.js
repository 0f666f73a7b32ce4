/** What this server of the dashboard can do: the same pages are served by masters and, with less, by `rota dashboard`. */

/** @typedef {{exec: boolean, tokens: boolean, provider: string}} Features */

/** Of a server that cannot be asked: what is offered may fail, and then says why. @type {Features} */
const USUAL = { exec: true, tokens: true, provider: "" };
/** @type {Promise<Features> | null} */
let known = null;

/** @returns {Promise<Features>} */
export function features() {
  known ??= fetch("/dashboard/features", { cache: "no-store" })
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(`the server answered ${answer.status}`))))
    .catch(() => ((known = null), USUAL));
  return known;
}
