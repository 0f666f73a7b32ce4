/**
 * The session of this browser: an HttpOnly cookie that scripts cannot read, and a page key that goes in a header.
 * Neither is of use without the other; see `sessions.py`.
 */
import { signal } from "@preact/signals";

const KEY = "rota.pageKey";
const NAME = "rota.user";

/** @type {import("@preact/signals").Signal<string>} The page key; empty if nobody is signed in. */
export const pageKey = signal(localStorage.getItem(KEY) ?? "");
export const userName = signal(localStorage.getItem(NAME) ?? "");

// Tabs of one origin sign in and out together.
addEventListener("storage", (event) => {
  if (event.key === KEY) pageKey.value = event.newValue ?? "";
  if (event.key === NAME) userName.value = event.newValue ?? "";
});

/** @param {{token?: string, ticket?: string}} proof */
export async function signIn(proof) {
  const answer = await fetch("/dashboard/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(proof),
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.message ?? `the server answered ${answer.status}`);
  localStorage.setItem(NAME, body.user);
  localStorage.setItem(KEY, body.pageKey);
  userName.value = body.user;
  pageKey.value = body.pageKey;
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
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (!ticket) return;
  history.replaceState(null, "", location.pathname + location.search);
  await signIn({ ticket });
}
