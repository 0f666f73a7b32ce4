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

/** @type {import("@preact/signals").Signal<string>} The page key; empty if nobody is signed in. */
export const pageKey = signal(localStorage.getItem(KEY) ?? "");
export const userName = signal(localStorage.getItem(NAME) ?? "");

// Tabs of one origin sign in and out together.
addEventListener("storage", (event) => {
  if (event.key === KEY) pageKey.value = event.newValue ?? "";
  if (event.key === NAME) userName.value = event.newValue ?? "";
});

/** 32 random bytes in URL-safe base64. */
const newKey = () => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32)))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** @param {{token?: string, ticket?: string}} proof */
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
}

export async function signOut() {
  await fetch("/dashboard/session", { method: "DELETE", headers: { "x-rota-page-key": pageKey.value } }).catch(() => {});
  forget();
}

/** The server no longer knows the session. */
export function forget() {
  localStorage.removeItem(KEY);
  localStorage.removeItem(NAME);
  pageKey.value = "";
  userName.value = "";
}

/** Sign in with the ticket that `rota dashboard` put into the address, and take it out of the address at once. */
export async function redeemTicket() {
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
