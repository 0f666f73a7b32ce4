/**
 * The session of this browser: an HttpOnly cookie that scripts cannot read, and a page key that goes in a header.
 * Neither is of use without the other; see `sessions.py`. The page makes the key, so a page that is left or loaded again
 * before the answer came redeems its ticket once more.
 */
import { signal } from "@preact/signals";

const KEY = "rota.pageKey";
const NAME = "rota.user";
/** The ticket that this tab redeems, and the key that it made for it. */
const REDEEMING = "rota.redeeming";
/** The key that this tab made before it went to the provider, and the address to come back to. */
const AWAY = "rota.away";
/** When the token of the session is to be renewed; absent if it never is. */
const RENEWAL = "rota.renewal";
/** After the provider or the server did not answer. */
const RETRY_S = 10;
/** A computer that slept renews late, so the time is compared now and then. */
const MOST_WAIT_MS = 60_000;

/** @type {import("@preact/signals").Signal<string>} The page key; empty if nobody is signed in. */
export const pageKey = signal(localStorage.getItem(KEY) ?? "");
export const userName = signal(localStorage.getItem(NAME) ?? "");

// Tabs of one origin sign in and out together.
addEventListener("storage", (event) => {
  if (event.key === KEY) pageKey.value = event.newValue ?? "";
  if (event.key === NAME) userName.value = event.newValue ?? "";
  if (event.key === RENEWAL) schedule();
});

/** 32 random bytes in URL-safe base64. */
const newKey = () => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32)))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** @param {{token?: string, ticket?: string, code?: string, state?: string}} proof */
export async function signIn(proof, key = newKey()) {
  const answer = await fetch("/dashboard/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...proof, pageKey: key }),
  });
  const body = await answer.json().catch(() => ({}));
  // An answer, whatever it says, is the end of a ticket; without one it is redeemed again.
  sessionStorage.removeItem(REDEEMING);
  if (!answer.ok) throw new Error(body.message ?? `the server answered ${answer.status}`);
  localStorage.setItem(NAME, body.user);
  localStorage.setItem(KEY, key);
  userName.value = body.user;
  pageKey.value = key;
  renewIn(body.renewIn ?? 0);
}

/** Go to the OpenID Connect provider; it sends the user back to the page, where `finishSignIn` goes on. */
export async function goToProvider() {
  const key = newKey();
  const answer = await fetch("/dashboard/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ pageKey: key }),
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.message ?? `the server answered ${answer.status}`);
  sessionStorage.setItem(AWAY, JSON.stringify([key, location.pathname + location.search]));
  location.assign(body.location);
}

export async function signOut() {
  await fetch("/dashboard/session", { method: "DELETE", headers: { "x-rota-page-key": pageKey.value } }).catch(() => {});
  forget();
}

/** The server no longer knows the session. */
export function forget() {
  for (const one of [KEY, NAME, RENEWAL]) localStorage.removeItem(one);
  clearTimeout(timer);
  pageKey.value = "";
  userName.value = "";
}

/**
 * Sign in with what is in the address, and take it out of the address at once: the ticket of `rota dashboard`, or the code
 * with which the provider sends the user back.
 */
export async function finishSignIn() {
  const query = new URLSearchParams(location.search);
  if (location.pathname === "/dashboard/" && query.has("state") && (query.has("code") || query.has("error"))) return finishAtProvider(query);
  const given = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (given) {
    sessionStorage.setItem(REDEEMING, JSON.stringify([given, newKey()]));
    history.replaceState(null, "", location.pathname + location.search);
  }
  const redeeming = sessionStorage.getItem(REDEEMING);
  if (!redeeming) return;
  const [ticket, key] = JSON.parse(redeeming);
  await signIn({ ticket }, key);
}

/** @param {URLSearchParams} query */
async function finishAtProvider(query) {
  const away = sessionStorage.getItem(AWAY);
  sessionStorage.removeItem(AWAY);
  const [key, back] = away ? JSON.parse(away) : ["", "/dashboard/"];
  history.replaceState(null, "", back);
  dispatchEvent(new PopStateEvent("popstate"));
  if (!key) throw new Error("this tab did not begin this sign-in: begin again");
  if (!query.has("code")) throw new Error(`the provider says: ${query.get("error_description") || query.get("error")}`);
  await signIn({ code: query.get("code") ?? "", state: query.get("state") ?? "" }, key);
}

// Tokens of a provider are valid for minutes or an hour. The server renews them while the session lasts.

/** @type {number | undefined} */
let timer;

/** @param {number} seconds Until the token is renewed; 0 if it cannot be. */
function renewIn(seconds) {
  if (seconds) localStorage.setItem(RENEWAL, String(Date.now() + seconds * 1000));
  else localStorage.removeItem(RENEWAL);
  schedule();
}

function schedule() {
  clearTimeout(timer);
  const due = Number(localStorage.getItem(RENEWAL));
  if (due && pageKey.value) timer = setTimeout(() => isDue() && renew(), Math.min(Math.max(0, due - Date.now()), MOST_WAIT_MS));
}

const isDue = () => Number(localStorage.getItem(RENEWAL)) <= Date.now() || (schedule(), false);

/** Which token the session has; it changes with every renewal. */
export const renewal = () => localStorage.getItem(RENEWAL);

/**
 * Renew the token of the session, in one tab at a time: a refresh token is valid once.
 * @returns {Promise<boolean>} Whether the session goes on.
 */
export async function renew() {
  const before = localStorage.getItem(RENEWAL);
  if (!before) return false;
  return navigator.locks.request("rota.renewal", async () => {
    // Another tab has done it meanwhile, or has signed out.
    if (localStorage.getItem(RENEWAL) !== before) return pageKey.value !== "";
    try {
      const answer = await fetch("/dashboard/session", { method: "PUT", headers: { "x-rota-page-key": pageKey.value } });
      if (answer.ok) renewIn((await answer.json()).renewIn);
      else if (answer.status === 401) renewIn(0);
      else renewIn(RETRY_S);
      return answer.status !== 401;
    } catch {
      renewIn(RETRY_S);
      return true;
    }
  });
}

schedule();
