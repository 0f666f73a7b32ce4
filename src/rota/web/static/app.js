/** The frame of the dashboard: sign-in, navigation, and the page of the present address. */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { connection } from "./live.js";
import { finishSignIn, pageKey, signOut, userName } from "./session.js";
import { Empty, Link, go, html, place } from "./ui.js";
import { SignIn } from "./views/signin.js";
import { Overview } from "./views/overview.js";
import { ClusterMap } from "./views/map.js";
import { NodePage } from "./views/node.js";
import { Pods } from "./views/pods.js";
import { PodPage } from "./views/pod.js";
import { Pipelines } from "./views/pipelines.js";
import { RunPage } from "./views/run.js";
import { Workloads } from "./views/workloads.js";
import { Queues } from "./views/queues.js";
import { Schedulers } from "./views/schedulers.js";
import { Simulations } from "./views/simulations.js";
import { WhatIf } from "./views/whatif.js";
import { Federation } from "./views/federation.js";

const PAGES = [
  ["overview", "Overview", "o"],
  ["map", "Cluster map", "m"],
  ["pods", "Pods", "p"],
  ["workloads", "Workloads", "k"],
  ["pipelines", "Pipelines", "l"],
  ["queues", "Queues and jobs", "q"],
  ["what-if", "What if", "w"],
  ["schedulers", "Schedulers", "s"],
  ["federation", "Federation", "f"],
  ["simulations", "Simulations", "i"],
];

function Page() {
  const [page, ...rest] = place.value.path.split("/").map(decodeURIComponent);
  switch (page) {
    case "":
    case "overview":
      return html`<${Overview} />`;
    case "map":
      return html`<${ClusterMap} />`;
    case "nodes":
      return html`<${NodePage} name=${rest[0]} key=${rest[0]} />`;
    case "pods":
      return rest.length === 2
        ? html`<${PodPage} namespace=${rest[0]} name=${rest[1]} key=${rest.join("/")} />`
        : html`<${Pods} />`;
    case "pipelines":
      return rest.length === 2
        ? html`<${RunPage} namespace=${rest[0]} name=${rest[1]} key=${rest.join("/")} />`
        : html`<${Pipelines} />`;
    case "workloads":
      return html`<${Workloads} />`;
    case "queues":
      return html`<${Queues} />`;
    case "schedulers":
      return html`<${Schedulers} />`;
    case "what-if":
      return html`<${WhatIf} />`;
    case "simulations":
      return html`<${Simulations} />`;
    case "federation":
      return html`<${Federation} />`;
    default:
      return html`<${Empty} title="There is no such page"><p><${Link} to="overview">Go to the overview<//></p><//>`;
  }
}

const THEMES = ["auto", "light", "dark"];

function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem("rota.theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("rota.theme", theme);
  }, [theme]);
  return /** @type {const} */ ([theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])]);
}

function Frame() {
  const [theme, nextTheme] = useTheme();
  const at = place.value.path.split("/")[0] || "overview";
  const current = at === "nodes" ? "map" : at;
  useEffect(() => {
    const name = PAGES.find(([id]) => id === current)?.[1] ?? "Rota";
    document.title = `${place.value.path.split("/").slice(1).map(decodeURIComponent).join("/") || name} · Rota`;
  });
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header>
      <${Link} to="overview" class="brand"><img src="/dashboard/assets/icon.svg" alt="" width="22" height="22" /> Rota<//>
      <nav class="pages" aria-label="Pages">${PAGES.map(([id, name, key]) => html`<${Link} to=${id} title=${`g ${key}`}
        aria-current=${id === current ? "page" : undefined}>${name}<//>`)}</nav>
      <div class="who">
        <span class=${`connection ${connection.value}`} role="status">${{ lost: "reconnecting …", refused: "too many dashboards are open: close some" }[connection.value] ?? ""}</span>
        <span class="user" title="Signed in as">${userName.value}</span>
        <button onClick=${nextTheme} aria-label=${`Colours: ${theme}`}>${{ auto: "◑", light: "☀", dark: "☾" }[theme]}</button>
        <button onClick=${signOut}>Sign out</button>
      </div>
    </header>
    <main id="main" tabindex="-1"><${Page} /></main>`;
}

let pending = "";
addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.metaKey || event.ctrlKey || event.altKey || target.closest("input, textarea, select, dialog, [contenteditable]")) return;
  const page = pending === "g" && PAGES.find(([, , key]) => key === event.key);
  if (page) go(page[0]);
  else if (event.key === "/") {
    const filter = /** @type {HTMLElement | null} */ (document.querySelector("[data-filter]"));
    if (filter) {
      event.preventDefault();
      filter.focus();
    }
  }
  pending = event.key;
});

function App() {
  return pageKey.value ? html`<${Frame} />` : html`<${SignIn} />`;
}

finishSignIn()
  .catch((error) => sessionStorage.setItem("rota.signInProblem", error.message))
  .finally(() => render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app"))));
