/**
 * The live views and the streams of this tab, over one WebSocket. A view begins with all of its rows and goes on with
 * changes; after a lost connection it begins anew by itself. A stream is the body of a GET of the API; it ends with a lost
 * connection. Browsers allow six connections to a host in all tabs together, so neither may have one of its own.
 */
import { effect, signal } from "@preact/signals";
import { forget, pageKey, renew, renewal } from "./session.js";

/**
 * @typedef {object} LiveView
 * @property {string[]} columns
 * @property {Map<string, any>} rows By key; changed in place, and `version` tells when.
 * @property {import("@preact/signals").Signal<number>} version
 * @property {import("@preact/signals").Signal<{state: "loading"|"ready"|"refused"|"absent"|"failed", why: string}>} status
 * @property {any} document The content of a view that is not a table.
 * @property {any[]} samples
 */

/** @type {import("@preact/signals").Signal<"connecting"|"open"|"lost"|"refused">} */
export const connection = signal("connecting");

/** @type {Map<string, {view: LiveView, name: string, namespace: string, users: number}>} */
const followed = new Map();
/** @type {WebSocket | null} */
let socket = null;
let failures = 0;
/** What takes the messages of each open stream. @type {Map<number, (message: any) => void>} */
const streams = new Map();
let lastStream = 0;
/** @type {number | undefined} */
let timer;

/** @param {string} name @param {string} namespace */
const keyOf = (name, namespace) => `${name} ${namespace}`;

/** @returns {LiveView} */
function emptyView() {
  return {
    columns: [],
    rows: new Map(),
    version: signal(0),
    status: signal({ state: "loading", why: "" }),
    document: null,
    samples: [],
  };
}

/** Follow a view; call the returned function to stop. @param {string} name @param {string} [namespace] */
export function follow(name, namespace = "") {
  const key = keyOf(name, namespace);
  let found = followed.get(key);
  if (!found) {
    found = { view: emptyView(), name, namespace, users: 0 };
    followed.set(key, found);
    send({ subscribe: { view: name, namespace } });
  }
  found.users += 1;
  const { view } = found;
  return {
    view,
    end: () => {
      const current = followed.get(key);
      if (!current || current.view !== view) return;
      current.users -= 1;
      // Another page that shows the same view comes soon, or never.
      setTimeout(() => {
        if (current.users === 0 && followed.get(key) === current) {
          followed.delete(key);
          send({ unsubscribe: { view: name, namespace } });
        }
      }, 2000);
    },
  };
}

/** @param {object} message */
function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function connect() {
  clearTimeout(timer);
  if (!pageKey.value) return;
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/dashboard/live`;
  const opened = new WebSocket(address, ["live.rota.dev", `page-key.rota.dev.${pageKey.value}`]);
  const token = renewal();
  socket = opened;
  opened.onopen = () => {
    failures = 0;
    connection.value = "open";
    for (const { name, namespace } of followed.values()) send({ subscribe: { view: name, namespace } });
  };
  opened.onmessage = (event) => receive(JSON.parse(event.data));
  opened.onclose = (event) => {
    if (socket !== opened) return;
    socket = null;
    for (const take of streams.values()) take({ code: 0, problem: "the connection was lost" });
    if (event.code === 4401) return void goOn(token);
    connection.value = event.code === 4429 ? "refused" : "lost";
    failures += 1;
    const pause = event.code === 4429 ? 20_000 : Math.min(5000, 250 * 2 ** failures);
    timer = setTimeout(reconnect, pause * (0.5 + Math.random() / 2));
  };
}

/** The token of this connection is not accepted any more: go on with the next one, if there is one. */
async function goOn(/** @type {string | null} */ token) {
  const renewed = renewal() && renewal() !== token;
  if (!renewed && !(await renew())) return forget();
  failures += 1;
  timer = setTimeout(reconnect, 100 * 2 ** Math.min(failures, 6));
}

/** A refused handshake tells no code: ask whether the session still is one before trying again. */
async function reconnect() {
  try {
    const answer = await fetch("/api", { headers: { "x-rota-page-key": pageKey.value }, cache: "no-store" });
    if (answer.status === 401 && !(await renew())) return forget();
  } catch {
    // the server is away
  }
  connect();
}

/** @param {any} message */
function receive(message) {
  if (message.stream !== undefined) return streams.get(message.stream)?.(message);
  const found = followed.get(keyOf(message.view, message.namespace));
  if (!found) return;
  const { view } = found;
  if (message.begin || message.more) {
    const { columns, rows, now, samples } = message.begin ?? message.more;
    if (message.begin) {
      view.columns = columns ?? [];
      view.rows.clear();
    }
    for (const [key, row] of rows ?? []) view.rows.set(key, row);
    if (now) view.document = now;
    if (samples) view.samples = samples;
    if (!message.complete) return;
    view.status.value = { state: "ready", why: "" };
  } else if (message.delta) {
    for (const [key, row] of message.delta.set ?? []) view.rows.set(key, row);
    for (const key of message.delta.gone ?? []) view.rows.delete(key);
    if (message.delta.now) view.document = message.delta.now;
    if (message.delta.sample) view.samples = [...view.samples.slice(-8639), message.delta.sample];
  } else {
    for (const state of /** @type {const} */ (["refused", "absent", "failed"])) {
      if (message[state] !== undefined) {
        view.rows.clear();
        view.document = null;
        view.status.value = { state, why: message[state] };
      }
    }
  }
  view.version.value += 1;
}

/**
 * The body of a GET as text, in portions as they come, until it ends or the signal ends it.
 * @param {string} path @param {AbortSignal} signal @returns {AsyncGenerator<string>}
 * @throws {{code: number, problem: string}} The code of the answer; 0 if the connection was lost.
 */
export async function* stream(path, signal) {
  while (socket?.readyState !== WebSocket.OPEN && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 50));
  const number = ++lastStream;
  /** @type {any[]} */
  const waiting = [];
  let wake = () => {};
  const take = (/** @type {any} */ message) => {
    waiting.push(message);
    wake();
  };
  const stop = () => take({ ended: true });
  streams.set(number, take);
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  else send({ open: { number, path } });
  try {
    for (;;) {
      while (waiting.length === 0) await new Promise((resolve) => (wake = () => resolve(undefined)));
      const message = waiting.shift();
      if (message.problem !== undefined) throw message;
      if (message.ended || signal.aborted) return;
      yield message.text;
    }
  } finally {
    streams.delete(number);
    signal.removeEventListener("abort", stop);
    send({ end: number });
  }
}

effect(() => {
  const key = pageKey.value;
  const old = socket;
  socket = null;
  for (const take of streams.values()) take({ code: 0, problem: "the session has changed" });
  old?.close();
  if (!key) followed.clear();
  else connect();
});
