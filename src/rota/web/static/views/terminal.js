/** A shell in a container, line by line: `pods/exec` over a WebSocket of the API, as the user. */
import { useEffect, useRef, useState } from "preact/hooks";
import { podPath } from "../api.js";
import { pageKey } from "../session.js";
import { Empty, html } from "../ui.js";

const MOST_CHARACTERS = 200_000;
/** The channels of `channel.k8s.io`. */
const [STDIN, STDOUT, STDERR, RESULT] = [0, 1, 2, 3];

/** @param {{pod: any}} props */
export function Terminal({ pod }) {
  const containers = pod.spec.containers.map((/** @type {any} */ one) => one.name);
  const [container, setContainer] = useState(containers[0]);
  const [output, setOutput] = useState("");
  const [state, setState] = useState("connecting");
  const [line, setLine] = useState("");
  const socket = useRef(/** @type {WebSocket | null} */ (null));
  const box = useRef(/** @type {HTMLPreElement | null} */ (null));
  const past = useRef({ lines: /** @type {string[]} */ ([]), at: 0 });
  const running = pod.status?.phase === "Running";
  const show = (/** @type {string} */ more) => setOutput((shown) => (shown + more).slice(-MOST_CHARACTERS));
  useEffect(() => {
    if (!running) return () => {};
    setOutput("");
    setState("connecting");
    const query = new URLSearchParams({ container, command: "sh", stdin: "true", stdout: "true", stderr: "true" });
    const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${podPath(pod.metadata.namespace, pod.metadata.name)}/exec?${query}`;
    const opened = new WebSocket(address, ["v5.channel.k8s.io", "v4.channel.k8s.io", `page-key.rota.dev.${pageKey.value}`]);
    opened.binaryType = "arraybuffer";
    socket.current = opened;
    const decoders = { [STDOUT]: new TextDecoder(), [STDERR]: new TextDecoder() };
    let begun = false;
    opened.onopen = () => {
      begun = true;
      setState("open");
    };
    opened.onmessage = (event) => {
      const bytes = new Uint8Array(event.data);
      const decoder = decoders[bytes[0]];
      if (decoder) show(decoder.decode(bytes.subarray(1), { stream: true }));
      else if (bytes[0] === RESULT) {
        const told = JSON.parse(new TextDecoder().decode(bytes.subarray(1)));
        show(told.status === "Success" ? "\nThe shell has ended.\n" : `\n${told.message}\n`);
      }
    };
    opened.onclose = () => setState(begun ? "ended" : "refused");
    return () => opened.close();
  }, [pod.metadata.uid, container, running]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [output]);
  if (!running) return html`<${Empty} title="The pod is not running"><p>A shell needs a running container.</p><//>`;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const text = new TextEncoder().encode(`${line}\n`);
    const frame = new Uint8Array(text.length + 1);
    frame[0] = STDIN;
    frame.set(text, 1);
    socket.current?.send(frame);
    show(`$ ${line}\n`);
    past.current.lines.push(line);
    past.current.at = past.current.lines.length;
    setLine("");
  };
  const recall = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const { lines } = past.current;
    past.current.at = Math.max(0, Math.min(lines.length, past.current.at + step));
    setLine(lines[past.current.at] ?? "");
  };
  const word = { connecting: "connecting …", open: "sh, line by line; rota exec has a full terminal", ended: "the connection has ended", refused: "the server refused the connection; rota exec does the same from a terminal" }[state];
  return html`<div class="row filters">
      ${containers.length > 1 && html`<label>Container <select onChange=${(/** @type {any} */ e) => setContainer(e.target.value)}>${containers.map((/** @type {string} */ one) => html`<option>${one}</option>`)}</select></label>`}
      <span class="muted" role="status">${word}</span></div>
    <pre class="code log" ref=${box} tabindex="0" role="log" aria-label="Output of the shell">${output}</pre>
    <form class="row shell" onSubmit=${submit}><label for="command">$</label>
      <input id="command" class="mono" aria-label="Command" autocomplete="off" autocapitalize="off" spellcheck=${false} value=${line} disabled=${state !== "open"}
        onInput=${(/** @type {any} */ e) => setLine(e.target.value)} onKeyDown=${recall} /><button disabled=${state !== "open"}>Run</button></form>`;
}
