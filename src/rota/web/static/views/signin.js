/** Signing in at the provider or with a token; `rota dashboard` signs in by itself. */
import { useState } from "preact/hooks";
import { goToProvider, signIn } from "../session.js";
import { Empty, html, useFeatures } from "../ui.js";

export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(() => {
    const kept = sessionStorage.getItem("rota.signInProblem") ?? "";
    sessionStorage.removeItem("rota.signInProblem");
    return kept;
  });
  const features = useFeatures();
  const attempt = (/** @type {() => Promise<void>} */ way) => {
    setProblem("");
    way().catch((error) => setProblem(error.message));
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(() => signIn({ token: token.trim() }));
  };
  if (!features) return html`<main class="sign-in"></main>`;
  if (!features.tokens)
    return html`<main class="sign-in"><${Empty} title="This dashboard belongs to one user">
      <p>It acts with the kubeconfig of the user that started it. Open the address that <code>rota dashboard</code> printed; the ticket in it signs in once. For another ticket, start it again.</p>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}<//></main>`;
  return html`<main class="sign-in"><form onSubmit=${submit}>
    <h1><img src="/dashboard/assets/icon.svg" alt="" width="28" height="28" /> Rota</h1>
    ${features.provider && html`<button type="button" class="primary" onClick=${() => attempt(goToProvider)}>Continue with ${features.provider}</button>`}
    <p>On a machine with the cluster's kubeconfig, <code>rota dashboard</code> opens this page signed in.</p>
    <label for="token">Or paste a token, for example of <code>kubectl create token ACCOUNT</code></label>
    <input id="token" type="password" autocomplete="off" spellcheck=${false} value=${token}
      onInput=${(/** @type {any} */ e) => setToken(e.target.value)} />
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <button class=${features.provider ? "" : "primary"} disabled=${!token.trim()}>Sign in</button>
  </form></main>`;
}
