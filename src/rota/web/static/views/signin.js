/** Signing in with a token; `rota dashboard` signs in by itself. */
import { useState } from "preact/hooks";
import { signIn } from "../session.js";
import { html } from "../ui.js";

export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(() => {
    const kept = sessionStorage.getItem("rota.signInProblem") ?? "";
    sessionStorage.removeItem("rota.signInProblem");
    return kept;
  });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setProblem("");
    try {
      await signIn({ token: token.trim() });
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  return html`<main class="sign-in"><form onSubmit=${submit}>
    <h1><img src="/dashboard/assets/icon.svg" alt="" width="28" height="28" /> Rota</h1>
    <p>On a machine with the cluster's kubeconfig, <code>rota dashboard</code> opens this page signed in.</p>
    <label for="token">Or paste a token, for example of <code>kubectl create token ACCOUNT</code></label>
    <input id="token" type="password" autocomplete="off" spellcheck=${false} value=${token}
      onInput=${(/** @type {any} */ e) => setToken(e.target.value)} />
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <button class="primary" disabled=${!token.trim()}>Sign in</button>
  </form></main>`;
}
