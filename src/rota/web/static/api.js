/** Calls of the Kubernetes API as the signed-in user. */
import { stream } from "./live.js";
import { forget, pageKey, renew, renewal } from "./session.js";

export class ApiError extends Error {
  /** @param {number} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * @param {string} path
 * @param {{method?: string, body?: object, text?: string, type?: string, accept?: string, signal?: AbortSignal}} [options]
 */
export async function request(path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { "x-rota-page-key": pageKey.value, accept: options.accept ?? "application/json" };
  const body = options.text ?? (options.body && JSON.stringify(options.body));
  if (body) headers["content-type"] = options.type ?? "application/json";
  const ask = () => fetch(path, { method: options.method ?? "GET", headers, body, signal: options.signal, cache: "no-store" });
  let answer = await ask();
  // A request that was not accepted has changed nothing.
  if (answer.status === 401 && (await renew())) answer = await ask();
  // While the provider is away, a session that can be renewed is not over.
  if (answer.status === 401 && !renewal()) forget();
  if (!answer.ok) {
    const body = await answer.json().catch(() => ({}));
    throw new ApiError(answer.status, body.message ?? `the server answered ${answer.status}`);
  }
  return answer;
}

/** @param {string} path @param {object} [options] @returns {Promise<any>} */
export const json = async (path, options) => (await request(path, options)).json();
/** @param {string} path @param {object} [options] */
export const text = async (path, options) => (await request(path, options)).text();
/** @param {string} path @param {object} change */
export const merge = (path, change) =>
  json(path, { method: "PATCH", body: change, type: "application/merge-patch+json" });

/**
 * The lines of a streamed answer, as they come; an ApiError with code 0 if the connection was lost.
 * @param {string} path @param {AbortSignal} signal @returns {AsyncGenerator<string[]>}
 */
export async function* lines(path, signal) {
  let rest = "";
  try {
    for await (const text of stream(path, signal)) {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      if (parts.length) yield parts;
    }
  } catch (problem) {
    throw new ApiError(problem.code, problem.problem);
  }
  if (rest && !signal.aborted) yield [rest];
}

/**
 * Follow a collection: its objects now, and again after every change, until the signal ends it.
 * @param {string} path @param {string} query @param {AbortSignal} signal @param {(objects: any[]) => void} tell
 */
export async function follow(path, query, signal, tell) {
  while (!signal.aborted) {
    try {
      const listing = await json(`${path}?${query}`, { signal });
      const known = new Map(listing.items.map((/** @type {any} */ one) => [one.metadata.uid, one]));
      tell([...known.values()]);
      const since = listing.metadata.resourceVersion;
      for await (const some of lines(`${path}?${query}&watch=true&resourceVersion=${since}`, signal)) {
        for (const line of some) {
          const { type, object } = JSON.parse(line);
          if (type === "DELETED") known.delete(object.metadata.uid);
          else if (type === "ERROR") throw new ApiError(object.code, object.message);
          else if (type !== "BOOKMARK") known.set(object.metadata.uid, object);
        }
        tell([...known.values()]);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && [401, 403, 404].includes(error.code)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 + Math.random() * 1000));
    }
  }
}

/** @type {Map<string, Promise<boolean>>} */
const rights = new Map();

/**
 * Whether the user may do something; actions that are not allowed are not offered.
 * @param {string} verb @param {string} resource @param {string} [namespace] @param {string} [group]
 */
export function can(verb, resource, namespace = "", group = "") {
  const key = [pageKey.value, verb, group, resource, namespace].join(" ");
  let known = rights.get(key);
  if (!known) {
    const [plural, subresource] = resource.split("/");
    known = json("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
      method: "POST",
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: { resourceAttributes: { verb, group, resource: plural, subresource, namespace } },
      },
    }).then((review) => Boolean(review.status?.allowed), () => false);
    rights.set(key, known);
    setTimeout(() => rights.delete(key), 30_000);
  }
  return known;
}

/** @param {string} namespace @param {string} name */
export const podPath = (namespace, name) =>
  `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`;
