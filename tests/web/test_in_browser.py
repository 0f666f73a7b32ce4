"""The dashboard of a real `rota up` in a real browser: every view, every action, and what must not happen there."""

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.conftest import WAIT_MS, Cluster, Visit, visiting

from rota.testing.openid_provider import OpenIdProvider

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    # A page waits up to a minute for each of several things on a busy machine.
    pytest.mark.timeout(600),
]

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
PAGES = (
    "overview",
    "map",
    "nodes/worker-1",
    "pods",
    "pods/default/web",
    "pods/default/web?tab=log",
    "pods/default/web?tab=why",
    "pods/default/too-large?tab=why",
    "pods/default/web?tab=yaml",
    "pods/default/web?tab=terminal",
    "pods/default/web?tab=files",
    "pods/default/breaks?tab=files",
    "pipelines",
    "pipelines/default/first",
    "queues",
    "what-if",
    "what-if?drain=worker-1",
    "schedulers",
    "federation",
    "workloads",
    "simulations",
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(
    browser: "Browser", cluster: Cluster, signed_in: Any, theme: str
) -> None:
    with visiting(browser, cluster.url, color_scheme=theme, bypass_csp=True, storage_state=signed_in) as visit:
        for path in PAGES:
            visit.open(path)
            visit.settled()
            visit.page.evaluate(AXE)
            # In the other colours everything but the contrast is the same.
            rules = "{}" if theme == "light" else "{ runOnly: ['color-contrast'] }"
            found = visit.page.evaluate(f"async () => (await axe.run({rules})).violations")
            serious = [
                (one["id"], [node["html"][:160] for node in one["nodes"]][:3])
                for one in found
                if one["impact"] in ("serious", "critical")
            ]
            assert serious == [], path


def test_the_overview_says_what_runs_and_what_is_wrong(visit: Visit) -> None:
    visit.see("of 1 node ready")
    visit.see("1 pod waits for a node.")
    visit.see("Pod default/breaks failed: main: exit code 3")
    visit.page.get_by_role("link", name="default/too-large").click()
    visit.see("request less, or add a larger node")
    assert visit.page.url.endswith("pods/default/too-large?tab=why")


def test_a_pod_that_is_created_appears_and_can_be_deleted(visit: Visit, cluster: Cluster) -> None:
    visit.open("pods?q=guest")
    visit.see("No pod matches")
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "guest", "labels": {"app": "guest"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "command": ["sleep", "1000"]}],
        },
    }
    cluster.rota("submit", "-", stdin=json.dumps(manifest))
    visit.page.get_by_role("link", name="guest", exact=True).wait_for()
    visit.page.get_by_label("Filter").fill("app=guest")
    visit.page.get_by_role("link", name="guest", exact=True).click()
    visit.page.get_by_role("heading", name="guest").get_by_text("Running").wait_for()
    visit.page.get_by_role("button", name="Delete").click()
    visit.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    visit.page.get_by_role("heading", name="Pods", exact=True).wait_for()
    visit.page.get_by_label("Filter").fill("app=guest")
    visit.see("No pod matches")


def test_a_log_is_live_and_can_be_searched(visit: Visit) -> None:
    visit.open("pods/default/web?tab=log")
    log = visit.page.get_by_role("log")
    visit.page.wait_for_function("() => /request \\d+/.test(document.querySelector('.log')?.textContent)")
    before = int(re.findall(r"request (\d+)", log.inner_text())[-1])
    visit.page.wait_for_function(f"() => document.querySelector('.log')?.textContent.includes('request {before + 3}')")
    visit.page.get_by_label("Search").fill(f"request {before}")
    visit.page.wait_for_function("() => document.querySelector('.log')?.textContent.split('\\n').length < 15")
    visit.open("pods/default/breaks?tab=log")
    visit.see("cannot open the input")
    visit.open("pods/default/restarts?tab=log")
    visit.see("the second run")
    visit.page.get_by_label("Previous run").check()
    visit.see("the first run")
    assert "the second run" not in log.inner_text()


def test_seven_tabs_are_live_at_once(visit: Visit, cluster: Cluster) -> None:
    """Browsers allow six connections to a host; every tab here follows a pod, its events and its log."""
    tabs = [visit.page, *(visit.page.context.new_page() for _ in range(6))]
    for tab in tabs:
        tab.set_default_timeout(WAIT_MS)
        tab.goto(f"{cluster.url}pods/default/web?tab=log")
    for tab in tabs:
        tab.wait_for_function("() => /request \\d+/.test(document.querySelector('.log')?.textContent)", polling=500)
    for tab in tabs:
        before = int(re.findall(r"request (\d+)", tab.get_by_role("log").inner_text())[-1])
        more = f"() => document.querySelector('.log')?.textContent.includes('request {before + 3}')"
        tab.wait_for_function(more, polling=500)
    for tab in tabs[1:]:
        tab.close()


def test_a_terminal_runs_a_shell_in_the_container(visit: Visit) -> None:
    loaded: list[str] = []
    visit.page.on("request", lambda asked: loaded.append(asked.url))
    visit.open("pods/default/web")
    visit.see("PodScheduled")
    assert loaded
    assert not [one for one in loaded if "xterm" in one]
    visit.page.get_by_role("link", name="Terminal").click()
    visit.see("connected", exact=True)
    assert [one for one in loaded if one.endswith("vendor/xterm.js")]
    # While a terminal is replaced by another, there is none.
    shown = "() => document.querySelector('.xterm-rows')?.textContent"
    # The colour is a style of the element: the policy of the page must not refuse it.
    for text, answer in (("echo $((6 * 7))", "42"), ("printf '\\033[38;2;200;30;90m%s' pi''nk", "pink")):
        visit.page.keyboard.type(f"{text}\n")
        visit.page.wait_for_function(f"{shown}.includes('{answer}')")
    colour = "() => [...document.querySelectorAll('.xterm-rows span')].map((one) => one.style.color).join()"
    assert "rgb(200, 30, 90)" in visit.page.evaluate(colour)
    # The terminal gets every other key, also Tab.
    visit.page.keyboard.press("F6")
    assert visit.page.evaluate("() => document.activeElement.textContent") == "New shell"
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_function("() => document.querySelector('.xterm-rows')?.textContent.includes('pink') === false")
    visit.see("connected", exact=True)
    visit.page.get_by_role("link", name="State", exact=True).click()
    visit.see("PodScheduled")
    assert visit.page.evaluate("() => document.adoptedStyleSheets.length") == 0


def test_files_of_a_container_are_listed_and_downloaded(visit: Visit) -> None:
    visit.open("pods/default/web?tab=files")
    with visit.page.expect_download() as coming:
        visit.page.get_by_role("button", name="Download result.csv").click()
    assert Path(coming.value.path()).read_text() == "1,2,3\n"
    visit.page.get_by_label("Folder").get_by_role("link").first.click()
    visit.page.get_by_role("link", name="usr/", exact=True).wait_for()
    visit.open("pods/default/breaks?tab=files")
    visit.see("The container is not running")


def test_one_pod_has_its_events_conditions_and_yaml(visit: Visit) -> None:
    visit.open("pods/default/web")
    visit.see("PodScheduled")
    visit.see("app=web")
    use = visit.page.get_by_role("region", name="Use over time")
    use.get_by_text(re.compile(r"used\s+\d+(\.\d+)? Mi")).wait_for()
    assert use.locator("canvas").count() == 2
    visit.page.get_by_role("link", name="YAML").click()
    visit.see("creationTimestamp:")


def test_why_shows_nodes_by_plugins(visit: Visit) -> None:
    visit.open("pods/default/too-large")
    visit.page.get_by_role("link", name="why?").click()
    visit.see("What would have to change")
    visit.page.get_by_role("link", name="Why it waits").wait_for()
    row = visit.page.get_by_role("row").filter(has_text="worker-1")
    assert "Insufficient cpu" in row.inner_text()
    visit.open("pods/default/web?tab=why")
    visit.see("here", exact=True)
    assert visit.page.locator(".stack i").count() > 1


def test_the_map_names_the_fullest_node_and_a_node_can_be_cordoned(visit: Visit) -> None:
    visit.open("map")
    visit.page.get_by_role("img", name=re.compile("Map of 1 node")).press("ArrowRight")
    visit.see("worker-1: processor")
    visit.page.get_by_role("img", name=re.compile("Map of 1 node")).press("Enter")
    visit.page.get_by_role("heading", name="worker-1").wait_for()
    for action, state in (("Cordon", "Cordoned"), ("Uncordon", "Ready")):
        visit.page.get_by_role("button", name=action, exact=True).click()
        visit.page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
        visit.page.get_by_role("heading", name="worker-1").get_by_text(state).wait_for()


def test_a_run_shows_its_steps_and_the_log_of_the_failed_one(visit: Visit) -> None:
    visit.open("pipelines/default/first")
    visit.page.get_by_role("heading", name="first").get_by_text("Failed").wait_for()
    visit.see("the disk is full")
    visit.page.get_by_role("link", name="greet").click()
    visit.page.wait_for_function("() => document.querySelector('.log')?.textContent.includes('hello')")


def test_a_pipeline_is_started_with_parameters_in_a_form(visit: Visit) -> None:
    visit.open("pipelines")
    visit.page.get_by_label("greeting").fill("bonjour")
    visit.page.get_by_role("button", name="Start", exact=True).click()
    visit.see("started report-")
    name = visit.page.get_by_text(re.compile("^started report-")).inner_text().removeprefix("started ")
    visit.page.get_by_role("link", name=f"default/{name}").click()
    # All steps are there from the beginning, in the order of the pipeline, so that no row moves under the pointer.
    visit.page.get_by_role("link", name="close").wait_for()
    assert visit.page.locator(".gantt tbody th").all_inner_texts() == ["greet", "close"]
    visit.page.get_by_role("link", name="greet").click()
    visit.page.wait_for_function("() => document.querySelector('.log')?.textContent.includes('bonjour')")


def test_a_failed_run_is_tried_again(visit: Visit) -> None:
    visit.open("pipelines/default/first")
    visit.page.get_by_role("button", name="Retry").click()
    visit.page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    visit.page.get_by_role("dialog").wait_for(state="detached")
    visit.page.get_by_role("heading", name="first").get_by_text("Failed").wait_for()


def test_what_if_says_what_a_drain_would_do_before_it_is_done(visit: Visit, cluster: Cluster) -> None:
    visit.open("nodes/worker-1")
    visit.page.get_by_role("link", name="What if it were drained?").click()
    visit.see("Not everything finds a place")
    visit.page.get_by_role("region", name="Lost: no controller creates it again").get_by_text("default/web").wait_for()
    assert "Running" in cluster.rota("get", "pod", "web")
    assert visit.page.get_by_role("button", name="Drain worker-1 now").count() == 1
    for name in ("Map before of 1 node", "Map afterwards of 1 node"):
        visit.page.get_by_role("img", name=re.compile(name)).wait_for()
    changed = visit.page.get_by_role("region", name="Nodes that change").get_by_role("row").filter(has_text="worker-1")
    assert re.search(r"drained.*\s[1-9]\d* → 0$", changed.inner_text().strip(), re.DOTALL)
    visit.open("what-if?nodes=2&nodeCpu=8&pods=1&cpu=6")
    visit.page.get_by_role("img", name=re.compile("Map afterwards of 3 nodes")).wait_for()
    table = visit.page.get_by_role("region", name="Nodes that change")
    table.get_by_role("row").filter(has_text="6 of 8").wait_for()
    assert table.get_by_text("new", exact=True).count() == 2


def test_queues_and_the_federation_have_their_pages(visit: Visit) -> None:
    visit.open("queues")
    visit.page.get_by_role("row").filter(has_text="default").first.wait_for()
    visit.open("schedulers")
    visit.see("One scheduler places all pods")
    visit.open("federation")
    visit.see("This cluster is not the control plane of a federation")


def test_a_page_that_is_left_while_it_signs_in_signs_in_at_the_next_one(browser: "Browser", cluster: Cluster) -> None:
    """The server has redeemed the ticket, and the page never gets the answer."""
    with visiting(browser, cluster.url) as visit:
        lost: list[int] = []

        def lose(route: "Route") -> None:
            lost.append(route.fetch().status)
            route.abort()

        visit.page.route("**/dashboard/session", lose, times=1)
        ticket = cluster.ticket()
        visit.page.goto(ticket)
        visit.page.get_by_role("button", name="Sign in").wait_for()
        assert lost == [200]
        assert "ticket" not in visit.page.url
        visit.open("pods")
        visit.page.get_by_role("link", name="too-large", exact=True).wait_for()
        with visiting(browser, cluster.url) as other:
            other.page.goto(ticket)
            other.see("the ticket is used or too old")


def test_signing_out_ends_every_tab_and_a_token_signs_in(browser: "Browser", cluster: Cluster) -> None:
    with visiting(browser, cluster.url) as visit:
        visit.page.goto(cluster.ticket())
        visit.page.get_by_role("heading", name="Overview").wait_for()
        _sign_out_and_in(visit, cluster)


def _sign_out_and_in(visit: Visit, cluster: Cluster) -> None:
    other = visit.page.context.new_page()
    other.goto(cluster.url + "pods")
    other.get_by_role("heading", name="Pods").wait_for()
    visit.page.get_by_role("button", name="Sign out").click()
    visit.page.get_by_role("button", name="Sign in").wait_for()
    other.get_by_role("button", name="Sign in").wait_for(timeout=WAIT_MS)
    visit.page.get_by_label("Or paste a token").fill("wrong")
    visit.page.get_by_role("button", name="Sign in").click()
    visit.see("the cluster does not accept this token")


def test_users_of_the_provider_sign_in_there(browser: "Browser", cluster: Cluster, provider: OpenIdProvider) -> None:
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: ann}\n"
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n"
        "subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann@example.com}]\n"
    )
    cluster.rota("submit", "-", stdin=binding)
    with visiting(browser, cluster.url, also=provider.url, ignore_https_errors=True) as visit:
        # An address from a colleague is still there after signing in.
        visit.open("pods?q=too-large")
        continue_with = visit.page.get_by_role("button", name=f"Continue with {provider.url.removeprefix('https://')}")
        continue_with.click()
        visit.page.get_by_role("button", name="Log in as nobody").click()
        visit.see("the provider says: nobody may come in")
        provider.lifetime_s = 12.0
        continue_with.click()
        visit.page.get_by_role("button", name="Log in as ann").click()
        visit.page.get_by_role("link", name="too-large", exact=True).wait_for()
        assert visit.page.url == f"{cluster.url}pods?q=too-large"
        visit.see("ann@example.com")
        kept = visit.page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert "eyJ" not in kept, "scripts see no token"
        # The page goes on with renewed tokens: the first one has expired when the second renewal is done.
        visit.page.wait_for_function("() => !document.querySelector('.connection.lost')")
        refreshed = provider.refreshed
        visit.page.wait_for_function("() => (window.renewals ??= new Set()).add(localStorage['rota.renewal']).size > 2")
        assert provider.refreshed >= refreshed + 2
        visit.page.get_by_label("Filter").fill("breaks")
        visit.page.get_by_role("link", name="breaks", exact=True).click()
        visit.page.get_by_role("link", name="YAML").click()
        visit.see("creationTimestamp:")
        visit.page.get_by_role("button", name="Sign out").click()
        continue_with.wait_for()
        visit.page.reload()
        continue_with.wait_for()


def test_a_user_without_rights_is_told_so_and_offered_no_actions(browser: "Browser", cluster: Cluster) -> None:
    account = (
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: guest, namespace: default}\n---\n"
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: guest, namespace: default}\n"
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n"
        "subjects: [{kind: ServiceAccount, name: guest, namespace: default}]\n---\n"
        "apiVersion: v1\nkind: Secret\nmetadata: {name: guest, namespace: default, annotations: "
        "{kubernetes.io/service-account.name: guest}}\ntype: kubernetes.io/service-account-token\n"
    )
    cluster.rota("submit", "-", stdin=account)
    token = ""
    for _ in range(100):
        secret = json.loads(cluster.rota("get", "secrets", "guest", "-o", "json"))
        data = (secret["items"][0] if "items" in secret else secret).get("data") or {}
        if "token" in data:
            token = base64.b64decode(data["token"]).decode()
            break
    assert token
    with visiting(browser, cluster.url) as visit:
        visit.page.goto(cluster.url)
        visit.page.get_by_label("Or paste a token").fill(token)
        visit.page.get_by_role("button", name="Sign in").click()
        visit.see("You may not see the cluster")
        visit.open("pods?namespace=default")
        visit.page.get_by_role("link", name="web", exact=True).click()
        visit.page.get_by_role("heading", name="web").get_by_text("Running").wait_for()
        visit.page.get_by_role("link", name="Log").wait_for()
        assert visit.page.get_by_role("button", name="Delete").count() == 0
        for tab in ("Terminal", "Files"):
            barred = visit.page.get_by_role("link", name=tab, disabled=True)
            assert barred.get_attribute("title") == "Your user lacks the right to create pods/exec in default."
        visit.open("pods/default/web?tab=terminal")
        visit.see("There is no terminal here")
        visit.open("pods?namespace=default")
        visit.page.get_by_role("link", name="web", exact=True).wait_for()
        cluster.rota("delete", "rolebinding", "guest")
        visit.see("You may not see pods")


ATTACK = """async ([base, socket]) => {
    const told = {};
    const ask = async (name, options, path = "/api/v1/namespaces") => {
        try {
            const answer = await fetch(base + path, { credentials: "include", ...options });
            told[name] = answer.type === "opaque" ? "opaque" : answer.status;
        } catch { told[name] = "refused"; }
    };
    await ask("read", {});
    await ask("write", { method: "POST", body: "{}", headers: { "content-type": "text/plain" } });
    await ask("key", { headers: { "x-rota-page-key": "x" } });
    await ask("unreadable", { mode: "no-cors" });
    told.socket = await new Promise((resolve) => {
        const one = new WebSocket(socket, ["live.rota.dev"]);
        one.onopen = () => resolve("open");
        one.onerror = () => resolve("refused");
    });
    const frame = document.createElement("iframe");
    frame.src = base + "/dashboard/";
    document.body.append(frame);
    await new Promise((resolve) => (frame.onload = resolve));
    try { told.frame = frame.contentDocument ? "readable" : "closed"; } catch { told.frame = "closed"; }
    return told;
}"""
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def test_markup_in_stored_fields_stays_text(visit: Visit, cluster: Cluster) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "markup", "annotations": {"note": MARKUP}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "command": [
                        "sh",
                        "-c",
                        'echo "$0"; printf "%s" "$0" > /dev/termination-log 2>/dev/null; exit 1',
                        MARKUP,
                    ],
                }
            ],
        },
    }
    cluster.rota("submit", "-", stdin=json.dumps(manifest))
    for path in ("pods/default/markup", "pods/default/markup?tab=log", "pods/default/markup?tab=yaml", "overview"):
        visit.open(path)
        visit.settled()
        if "tab=" in path:
            visit.page.wait_for_function("() => document.querySelector('pre')?.textContent.includes('<img')")
        assert visit.page.locator("img[src=x], main script").count() == 0
    cluster.rota("delete", "pod", "markup")


def test_a_page_of_another_origin_gets_nothing(browser: "Browser", cluster: Cluster, visit: Visit) -> None:
    """From another port of the same host: the browser sends the cookie along, and it is of no use there."""
    attack = visit.page.context.new_page()
    attack.route("http://127.0.0.1:1/*", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
    attack.goto("http://127.0.0.1:1/")
    base = cluster.url.partition("/dashboard")[0]
    socket = base.replace("http", "ws") + "/dashboard/live"
    tried = attack.evaluate(ATTACK, [base, socket])
    # An answer that is sent without being readable, or none at all: which one is the browser's choice.
    assert tried.pop("unreadable") in {"opaque", "refused"}
    assert tried == {"read": "refused", "write": "refused", "key": "refused", "socket": "refused", "frame": "closed"}


def test_everything_is_reached_by_keyboard(visit: Visit) -> None:
    visit.page.keyboard.press("g")
    visit.page.keyboard.press("p")
    visit.page.get_by_role("heading", name="Pods").wait_for()
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("too-large")
    link = visit.page.get_by_role("link", name="too-large", exact=True)
    link.wait_for()
    for _ in range(30):
        visit.page.keyboard.press("Tab")
        if visit.page.evaluate("() => document.activeElement.textContent === 'too-large'"):
            break
    visit.page.keyboard.press("Enter")
    visit.page.get_by_role("heading", name="too-large").wait_for()
    assert "q=too-large" not in visit.page.url


def test_the_pages_fit_a_phone(browser: "Browser", cluster: Cluster, signed_in: Any) -> None:
    with visiting(browser, cluster.url, storage_state=signed_in) as visit:
        visit.page.set_viewport_size({"width": 375, "height": 740})
        for path in PAGES:
            visit.open(path)
            visit.settled()
            wide = visit.page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= 375, path
