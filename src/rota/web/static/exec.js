/** Commands in containers: `pods/exec` over a WebSocket of the API, as the user. */
import { podPath } from "./api.js";
import { pageKey } from "./session.js";

/** The channels of `channel.k8s.io`. */
const [STDIN, STDOUT, STDERR, RESULT, SIZE] = [0, 1, 2, 3, 4];

/**
 * @typedef {object} Running
 * @property {(text: string) => void} write To its standard input.
 * @property {(columns: number, rows: number) => void} resize
 * @property {() => void} close
 */

/**
 * Why no command can be started in a container of a pod; empty if one can.
 * @param {string} namespace @param {boolean} allowed Whether the user has the right. @param {import("./features.js").Features} features
 */
export function whyNoExec(namespace, allowed, features) {
  if (!features.exec) return "This dashboard is served by rota dashboard, which passes no terminals on. Use kubectl exec, or the dashboard of a master.";
  return allowed ? "" : `Your user lacks the right to create pods/exec in ${namespace}.`;
}

/**
 * Start a command. With `tty` it has a terminal, and its errors come with its output.
 * @param {any} pod @param {string} container @param {string[]} command
 * @param {{tty?: boolean, stdin?: boolean, begun?: () => void, output: (bytes: Uint8Array) => void, errors?: (bytes: Uint8Array) => void, ended: (problem: string) => void}} given
 *   `ended` gets an empty text if the command succeeded, and otherwise says what happened.
 * @returns {Running}
 */
export function start(pod, container, command, given) {
  const query = new URLSearchParams({ container, stdout: "true" });
  for (const one of command) query.append("command", one);
  if (given.stdin) query.set("stdin", "true");
  query.set(given.tty ? "tty" : "stderr", "true");
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${podPath(pod.metadata.namespace, pod.metadata.name)}/exec?${query}`;
  const socket = new WebSocket(address, ["v5.channel.k8s.io", "v4.channel.k8s.io", `page-key.rota.dev.${pageKey.value}`]);
  socket.binaryType = "arraybuffer";
  /** @type {string | null} */
  let result = null;
  let begun = false;
  let left = false;
  socket.onopen = () => {
    begun = true;
    given.begun?.();
  };
  socket.onmessage = (event) => {
    const bytes = new Uint8Array(event.data);
    const content = bytes.subarray(1);
    if (bytes[0] === STDOUT) given.output(content);
    else if (bytes[0] === STDERR) given.errors?.(content);
    else if (bytes[0] === RESULT) {
      const told = JSON.parse(new TextDecoder().decode(content));
      result = told.status === "Success" ? "" : String(told.message);
    }
  };
  socket.onclose = () => {
    if (!left) given.ended(result ?? (begun ? "the connection was lost" : "the server refused the connection; rota exec does the same from a terminal"));
  };
  const send = (/** @type {number} */ channel, /** @type {string} */ text) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const content = new TextEncoder().encode(text);
    const frame = new Uint8Array(content.length + 1);
    frame[0] = channel;
    frame.set(content, 1);
    socket.send(frame);
  };
  return {
    write: (text) => send(STDIN, text),
    resize: (columns, rows) => send(SIZE, JSON.stringify({ Width: columns, Height: rows })),
    close: () => {
      left = true;
      socket.close();
    },
  };
}

/**
 * The output of a command, run to its end; an Error with what it wrote to its errors if it failed.
 * @param {any} pod @param {string} container @param {string[]} command @param {AbortSignal} signal @param {number} most The most bytes to take.
 * @returns {Promise<Blob>}
 */
export function outputOf(pod, container, command, signal, most) {
  return new Promise((resolve, reject) => {
    /** @type {Uint8Array[]} */
    const parts = [];
    let taken = 0;
    let told = "";
    const decoder = new TextDecoder();
    const running = start(pod, container, command, {
      output: (bytes) => {
        taken += bytes.length;
        parts.push(bytes);
        if (taken <= most) return;
        running.close();
        reject(new Error(`it is larger than ${Math.round(most / 2 ** 20)} Mi: copy it with kubectl cp`));
      },
      errors: (bytes) => (told = (told + decoder.decode(bytes, { stream: true })).slice(-2000)),
      ended: (problem) => (problem ? reject(new Error(told.trim() || problem)) : resolve(new Blob(/** @type {BlobPart[]} */ (parts)))),
    });
    signal.addEventListener("abort", () => {
      running.close();
      reject(new Error("it was cancelled"));
    });
  });
}
