"""Workloads, forecasts, configurations and simulations in the dashboard of a real `rota up`."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.web.conftest import ROTA, Cluster, Visit, visiting
from tests.web.test_beside import rota, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    # A page waits up to a minute for each of several things on a busy machine.
    pytest.mark.timeout(600),
]

PACKING = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""
JOBS = "job,submitted,seconds,cores,gib\na,0,600,2,4\nb,30,600,2,4\nc,60,300,8,8\n"


def test_a_deployment_is_scaled_and_restarted(visit: Visit, cluster: Cluster) -> None:
    labels = {"app": "scaled"}
    container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "scaled", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    cluster.rota("submit", "-", stdin=json.dumps(deployment))
    try:
        visit.open("workloads")
        row = visit.page.get_by_role("row").filter(has_text="default/scaled")
        row.get_by_text("1/1").wait_for()
        row.get_by_role("button", name="Scale").click()
        visit.page.get_by_role("dialog").get_by_label("Pods").fill("2")
        visit.page.get_by_role("dialog").get_by_role("button", name="Scale").click()
        row.get_by_text("2/2").wait_for()
        before = _pods(cluster)
        row.get_by_role("button", name="Restart").click()
        visit.page.get_by_role("dialog").get_by_role("button", name="Restart").click()
        visit.page.get_by_role("dialog").wait_for(state="detached")
        visit.open("pods?q=app%3Dscaled")
        for name in before:
            visit.page.get_by_role("link", name=name, exact=True).wait_for(state="detached")
        visit.page.get_by_role("link", name=re.compile("^scaled-")).first.wait_for()
    finally:
        cluster.rota("delete", "deployment", "scaled")


def _pods(cluster: Cluster) -> set[str]:
    listed = json.loads(cluster.rota("get", "pods", "-l", "app=scaled", "-o", "json"))
    return {one["metadata"]["name"] for one in listed["items"]}


def test_the_map_and_the_page_of_a_node_show_what_is_used_and_expected(visit: Visit, cluster: Cluster) -> None:
    environment = {**os.environ, "KUBECONFIG": str(cluster.folder / "kubeconfig")}
    with subprocess.Popen([ROTA, "forecaster", "--every", "1"], env=environment) as forecaster:
        try:
            visit.open("map")
            visit.page.locator("option[value=memory-used]").wait_for(state="attached")
            visit.page.get_by_label("Fill by").select_option("memory-used")
            visit.page.get_by_role("heading", name="Fullest by memory used").wait_for()
            visit.page.get_by_role("row").filter(has_text="worker-1").get_by_text(re.compile(r"^\d+ %$")).wait_for()
            visit.open("nodes/worker-1")
            visit.see_like(r"memory: .* used, .* expected at most within")
            assert visit.page.get_by_role("region", name="Use and forecast").locator("canvas").count() == 2
        finally:
            forecaster.send_signal(signal.SIGTERM)
            forecaster.wait(60)


def test_a_configuration_is_tried_before_it_is_used(visit: Visit) -> None:
    visit.open("what-if")
    field = visit.page.get_by_label("KubeSchedulerConfiguration")
    field.fill(PACKING)
    field.blur()
    visit.page.get_by_role("heading", name="Answer").wait_for()
    field.fill(PACKING.replace("MostAllocated", "Nonsense"))
    field.blur()
    visit.page.locator(".problem").filter(has_text="Nonsense").wait_for()


def test_reports_of_simulations_are_opened_beside_each_other(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "packing.yaml").write_text(PACKING)
    names = "name=job,at=submitted,duration=seconds,cpu=cores,memory=gib:Gi"
    command = [ROTA, "simulate", "--csv", "jobs.csv", "--map", names, "--nodes", "2xcpu=8,memory=32Gi", "--json"]
    for policy in ("default", "packing.yaml"):
        done = subprocess.run([*command, "--policy", policy], cwd=tmp_path, capture_output=True, text=True, check=True)
        (tmp_path / f"{policy}.json").write_text(done.stdout)
    (tmp_path / "broken.json").write_text("{}")
    asked: list[str] = []
    visit.open("simulations")
    visit.page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    files = [tmp_path / name for name in ("default.json", "packing.yaml.json", "broken.json")]
    visit.page.get_by_label("Open reports").set_input_files(files)
    visit.see("2 results")
    visit.see("broken.json has no results")
    row = visit.page.get_by_role("row").filter(has=visit.page.get_by_role("rowheader", name="finished", exact=True))
    assert [text.strip() for text in row.locator("td").all_inner_texts()] == ["3", "3"]
    assert visit.page.locator(".curve polyline").count() >= 2
    with visit.page.expect_download() as coming:
        visit.page.get_by_role("button", name="Save as one HTML file").click()
    saved = tmp_path / coming.value.suggested_filename
    coming.value.save_as(saved)
    assert saved.name == "simulations.html"
    alone = visit.page.context.new_page()
    alone.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    alone.goto(saved.as_uri())
    assert alone.locator(".curve polyline").count() == visit.page.locator(".curve polyline").count()
    row = alone.get_by_role("row").filter(has=alone.get_by_role("rowheader", name="finished", exact=True))
    assert [text.strip() for text in row.locator("td").all_inner_texts()] == ["3", "3"]
    asked.remove(f"GET {saved.as_uri()}")
    # The browser may still be fetching the icon; nothing of a report leaves the page.
    assert [one for one in asked if not re.match("GET [^?]*/assets/[^?]*$", one)] == []


def test_two_schedulers_are_shown_with_their_shards(browser: "Browser", tmp_path: Path) -> None:
    command = ["up", "--workers", "0", "--schedulers", "2", "--data", str(tmp_path), "--port", "0"]
    with running(*command, "--dashboard-port", "0", until="dashboard ") as (process, line):
        url = line.split()[1]
        assert process.stdout is not None
        assert any("Rota is up" in one for one in iter(process.stdout.readline, ""))
        with visiting(browser, url) as visit:
            visit.page.goto(json.loads(rota(tmp_path / "kubeconfig", "dashboard", "--json"))["url"])
            visit.page.get_by_role("heading", name="Overview").wait_for()
            visit.open("schedulers")
            table = visit.page.get_by_role("region", name="Instances of schedulers")
            table.get_by_role("row").nth(2).wait_for()
            visit.page.get_by_role("region", name="Members of shard maps").get_by_role("row").nth(2).wait_for()
            assert table.get_by_role("row").count() == 3
