/** A terminal in a container: xterm.js, loaded when the first terminal is opened, on a shell of `pods/exec`. */
import { useEffect, useRef, useState } from "preact/hooks";
import { start } from "../exec.js";
import { ContainerChoice, html } from "../ui.js";

const STYLES = "/dashboard/assets/vendor/xterm.css";
/** The best shell that the container has. */
const SHELL = ["sh", "-c", "TERM=xterm-256color; export TERM; command -v bash > /dev/null 2>&1 && exec bash; exec sh"];
const LEAVE = "F6";

/** Of a running pod. @param {{pod: any}} props */
export function Terminal({ pod }) {
  const containers = pod.spec.containers.map((/** @type {any} */ one) => one.name);
  const [container, setContainer] = useState(containers[0]);
  const [state, setState] = useState("connecting …");
  const [attempt, setAttempt] = useState(0);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const after = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => {
    let left = false;
    let end = () => {};
    setState("connecting …");
    open(pod, container, /** @type {HTMLDivElement} */ (box.current), setState, () => after.current?.focus()).then(
      (ending) => (left ? ending() : (end = ending)),
      (error) => left || setState(error.message),
    );
    return () => {
      left = true;
      end();
    };
  }, [pod.metadata.uid, container, attempt]);
  return html`<div class="row filters"><${ContainerChoice} containers=${containers} choose=${setContainer} />
      <span class="muted" role="status">${state}</span></div>
    <div class="terminal-box" ref=${box}></div>
    <p class="row"><button ref=${after} onClick=${() => setAttempt(attempt + 1)}>New shell</button> <span class="muted small">${LEAVE} leaves the terminal.</span></p>`;
}

/**
 * Open a terminal in a box; what is returned ends it.
 * @param {any} pod @param {string} container @param {HTMLElement} box @param {(state: string) => void} tell @param {() => void} leave
 */
async function open(pod, container, box, tell, leave) {
  const [{ Terminal: Xterm }, { FitAddon }] = await Promise.all([import("@xterm/xterm"), import("@xterm/addon-fit"), styles()]);
  /** What ends the terminal, in the order in which it began. @type {(() => void)[]} */
  const endings = [withoutInlineStyles()];
  const end = () => endings.reverse().forEach((one) => one());
  try {
    const term = new Xterm({
      theme: theme(),
      fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
      fontSize: 13,
      scrollback: 5000,
      screenReaderMode: true,
      minimumContrastRatio: 4.5,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    });
    endings.push(() => box.replaceChildren(), () => term.dispose());
    const fit = new FitAddon();
    term.loadAddon(fit);
    term.open(box);
    fit.fit();
    term.attachCustomKeyEventHandler((event) => {
      if (event.key !== LEAVE) return true;
      if (event.type === "keydown") leave();
      return false;
    });
    const shell = start(pod, container, SHELL, {
      tty: true,
      stdin: true,
      begun: () => {
        tell("connected");
        shell.resize(term.cols, term.rows);
        term.focus();
      },
      output: (bytes) => term.write(bytes),
      ended: (problem) => tell(problem || "the shell has ended"),
    });
    endings.push(() => shell.close());
    term.onData(shell.write);
    term.onResize(({ cols, rows }) => shell.resize(cols, rows));
    const watch = new ResizeObserver(() => fit.fit());
    watch.observe(box);
    const recolour = new MutationObserver(() => (term.options.theme = theme()));
    recolour.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    endings.push(() => watch.disconnect(), () => recolour.disconnect());
  } catch (error) {
    end();
    throw error;
  }
  return end;
}

/** The colours of the page. */
function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const [background, foreground, cursor, selectionBackground] = ["--code", "--ink", "--accent", "--chosen"].map(colour);
  const [red, green, yellow, cyan, grey] = ["--bad", "--good", "--waits", "--accent", "--muted"].map(colour);
  return { background, foreground, cursor, selectionBackground, red, green, yellow, cyan, brightRed: red, brightGreen: green, brightYellow: yellow, brightCyan: cyan, brightBlack: grey };
}

/** @returns {Promise<void>} */
function styles() {
  if (document.querySelector(`link[href="${STYLES}"]`)) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = STYLES;
    link.onload = () => resolve();
    link.onerror = () => (link.remove(), reject(new Error("the styles of the terminal cannot be loaded: open it again")));
    document.head.append(link);
  });
}

let terminals = 0;

/**
 * xterm.js puts styles into style elements and style attributes, which the policy of the page refuses. While a terminal is
 * open, elements are made so that these styles become constructed style sheets and properties, which the policy allows.
 * What is returned ends that.
 */
function withoutInlineStyles() {
  terminals += 1;
  document.createElement = /** @type {any} */ (makeElement);
  return () => {
    terminals -= 1;
    if (!terminals) delete (/** @type {any} */ (document).createElement);
  };
}

/** @param {string} name @param {ElementCreationOptions} [options] */
function makeElement(name, options) {
  const made = Document.prototype.createElement.call(document, name === "style" ? "template" : name, options);
  if (name === "style") {
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    Object.defineProperty(made, "textContent", { set: (text) => void sheet.replaceSync(text) });
    made.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
      Element.prototype.remove.call(made);
    };
  } else made.setAttribute = (key, value) => (key === "style" ? void (made.style.cssText = value) : Element.prototype.setAttribute.call(made, key, value));
  return made;
}
