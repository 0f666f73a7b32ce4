/**
 * Files of a container, through `pods/exec` as the user: as `kubectl cp`, this needs a shell, `stat` and `cat` there. A
 * container that has ended has none; its outputs are in the status of the pod.
 */
import { useEffect, useState } from "preact/hooks";
import { outputOf } from "../exec.js";
import { ContainerChoice, Empty, Link, duration, html, place, save, size, useNow } from "../ui.js";

const MOST_LISTING = 4 * 2 ** 20;
const MOST_FILE = 64 * 2 ** 20;
const MOST_ENTRIES = 2000;
/** The folder, and a line for each entry: mode in hexadecimal, bytes, time of change, name. */
const LIST =
  'command -v stat > /dev/null || { echo "there is no stat in the container" >&2; exit 1; }; ' +
  'cd -- "$1" && pwd && { stat -c "%f %s %Y %n" -- * .[!.]* ..?* 2> /dev/null; true; } | head -n "$2"';

/** @typedef {{name: string, folder: boolean, link: boolean, bytes: number, changed: number}} Entry */

/** @param {string} text @returns {{folder: string, entries: Entry[]}} */
function read(text) {
  const [folder, ...lines] = text.split("\n");
  const entries = lines.flatMap((line) => {
    const found = /^([0-9a-f]+) (\d+) (\d+) (.+)$/.exec(line);
    if (!found) return [];
    const kind = parseInt(found[1], 16) & 0xf000;
    return [{ name: found[4], folder: kind === 0x4000, link: kind === 0xa000, bytes: Number(found[2]), changed: Number(found[3]) }];
  });
  entries.sort((a, b) => Number(b.folder) - Number(a.folder) || (a.name < b.name ? -1 : 1));
  return { folder, entries };
}

/** @param {{pod: any, barred: string}} props `barred` says why no command can be started in the pod; empty if one can. */
export function Files({ pod, barred }) {
  return html`<${Outputs} pod=${pod} />
    ${barred ? html`<${Empty} title="Files cannot be read here"><p>${barred}</p><//>` : html`<${Folder} pod=${pod} />`}`;
}

/** @param {{pod: any}} props */
function Folder({ pod }) {
  const containers = pod.spec.containers.map((/** @type {any} */ one) => one.name);
  const [container, setContainer] = useState(containers[0]);
  const wanted = place.value.query.get("folder") ?? ".";
  const [found, setFound] = useState(/** @type {{folder: string, entries: Entry[]} | null} */ (null));
  const [problem, setProblem] = useState("");
  const [again, setAgain] = useState(0);
  const now = useNow();
  const runs = Boolean(pod.status?.containerStatuses?.find((/** @type {any} */ one) => one.name === container)?.state?.running);
  useEffect(() => {
    setProblem("");
    if (!runs) return () => {};
    const ending = new AbortController();
    outputOf(pod, container, ["sh", "-c", LIST, "files", wanted, String(MOST_ENTRIES)], ending.signal, MOST_LISTING).then(
      async (blob) => setFound(read(await blob.text())),
      (error) => ending.signal.aborted || (setFound(null), setProblem(error.message)),
    );
    return () => ending.abort();
  }, [pod.metadata.uid, container, wanted, runs, again]);
  const open = (/** @type {string} */ folder) => `${place.value.path}?tab=files&folder=${encodeURIComponent(folder)}`;
  const fetchFile = async (/** @type {Entry} */ entry) => {
    setProblem("");
    try {
      const path = `${found?.folder}/${entry.name}`;
      save(entry.name, await outputOf(pod, container, ["cat", "--", path], new AbortController().signal, MOST_FILE));
    } catch (error) {
      setProblem(`${entry.name}: ${/** @type {Error} */ (error).message}`);
    }
  };
  const parts = found?.folder.split("/").filter(Boolean) ?? [];
  return html`<div class="row filters"><${ContainerChoice} containers=${containers} choose=${setContainer} />
      ${runs && html`<button onClick=${() => setAgain(again + 1)}>Read again</button>`}</div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!runs ? html`<${Empty} title="The container is not running"><p>Its files can be read only while it runs. What a step outputs is kept in the status of its pod and its step run.</p><//>`
      : !found ? !problem && html`<${Empty} title="Reading the folder …" />`
      : html`<p class="crumbs mono" aria-label="Folder"><${Link} to=${open("/")}>/<//>${parts.map((one, at) => html` <${Link} to=${open(`/${parts.slice(0, at + 1).join("/")}`)}>${one}<//> /`)}</p>
      ${found.entries.length === 0 ? html`<${Empty} title="The folder is empty" />` : html`<div class="table-box" tabindex="0" role="region" aria-label="Files"><table>
        <thead><tr><th scope="col">Name</th><th scope="col" class="num">Size</th><th scope="col" class="num">Changed</th><th scope="col"><span class="hidden">Action</span></th></tr></thead>
        <tbody>${found.entries.map((one) => html`<tr key=${one.name}><td class="mono">${one.folder ? html`<${Link} to=${open(`${found.folder === "/" ? "" : found.folder}/${one.name}`)}>${one.name}/<//>` : `${one.name}${one.link ? " (link)" : ""}`}</td>
          <td class="num">${one.folder ? "" : size(one.bytes)}</td><td class="num">${duration(now - one.changed)} ago</td>
          <td>${!one.folder && html`<button class="quiet" onClick=${() => fetchFile(one)} aria-label=${`Download ${one.name}`}>Download</button>`}</td></tr>`)}</tbody></table></div>`}
      ${found.entries.length >= MOST_ENTRIES && html`<p class="muted">Further entries are not shown.</p>`}`}`;
}

/** @param {any} pod @returns {any[]} */
const outputs = (pod) => (pod.status?.containerStatuses ?? []).filter((/** @type {any} */ one) => one.state?.terminated?.message);
/** @param {any} pod */
export const hasOutputs = (pod) => outputs(pod).length > 0;

/** What the containers of a pod have output: the messages with which they ended. @param {{pod: any}} props */
function Outputs({ pod }) {
  return outputs(pod).map((/** @type {any} */ one) => html`<section key=${one.name} aria-label=${`Result of ${one.name}`}><h2>Result of ${one.name}</h2><pre class="code">${one.state.terminated.message}</pre></section>`);
}
